"""NVIDIA's own library, the newest and the oldest supported, which opens without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from compiler_runs import HERE, ROOT, WHEELS, Compiler

from gpu_compile.environment import compile_environment

RELEASES = pytest.mark.parametrize("wheels", [WHEELS, WHEELS / "oldest"], ids=["newest", "oldest"])

PROGRAM = """
import ctypes
from xla_shmem import _core
from xla_shmem.gpu import libraries

library = _core.nvshmem_library(libraries.nvshmem(13, None).paths)
print(library["path"], *library["version"])
ctypes.CDLL(library["path"]).nvshmemx_mc_ptr  # the loader can do without it, XLA_SHMEM_GPU_REDUCE=multimem cannot
"""


@RELEASES
def test_library_of_the_wheel_is_found_with_its_release(compiler: Compiler, wheels: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=compile_environment(wheels, []), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    path, *version = done.stdout.split()
    assert path.startswith(f"{wheels}/nvidia/")
    assert (version == ["3", "3", "20"]) == (wheels != WHEELS)


@pytest.fixture(scope="module")
def idle_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with all driver calls that xla-shmem needs. They succeed and do nothing; every attribute is 1."""
    names = re.findall(r'CALL\(\w+, "(cu\w+)"', (ROOT / "xla_patch/nvshmem/gpu/cuda_driver.h").read_text())
    folder = tmp_path_factory.mktemp("driver")
    source, library = folder / "driver.c", folder / "libidle_driver.so"
    attribute = "cuDeviceGetAttribute"
    has_all = f"int {attribute}(int* value, int attribute, int device) {{ return *value = 1, 0; }}\n"
    source.write_text(has_all + "".join(f"int {name}() {{ return 0; }}\n" for name in names if name != attribute))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def _settings(output: str) -> dict[str, str]:
    return dict(re.findall(r"^  (NVSHMEM_\w+) +(\S+) \(type", output, re.MULTILINE))


@RELEASES
def test_all_pes_of_the_real_library_read_the_same_settings(
    compiler: Compiler, idle_driver: Path, tmp_path: Path, wheels: Path
) -> None:
    environ = compile_environment(wheels, []) | {"NVSHMEM_INFO": "1", "NVSHMEM_INFO_HIDDEN": "1"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NVSHMEM_")}
    command = [sys.executable, HERE / "worker_nvshmem.py"]
    processes = [
        subprocess.Popen(
            [*command, str(process), "2", tmp_path / "notes", idle_driver],
            env=inherited | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    for _, errors in outputs:
        assert "could not start as PE 0 of 2" in errors, errors
    first, second = (_settings(output) for output, _ in outputs)
    assert first == second
    chosen = {"NVSHMEM_MAX_TEAMS": "16", "NVSHMEM_DISABLE_NCCL": "true", "NVSHMEM_REMOTE_TRANSPORT": '"none"'}
    assert first.items() >= chosen.items()
    assert len(first) > 40
