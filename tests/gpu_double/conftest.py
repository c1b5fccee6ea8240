"""Builds the doubles of NVIDIA's libraries and the caller of FFI handlers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def double() -> Path:
    """The directory with libcuda.so.1, libnvidia-ml.so.1, libnvshmem_host.so.3 and the module handler_caller."""
    build = ROOT / "build" / f"gpu_double-{sys.implementation.cache_tag}"
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    options = ["-DXLA_SHMEM_BUILD_MODULE=OFF", "-DXLA_SHMEM_BUILD_GPU_DOUBLE=ON"]
    for command in (
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}", *options],
        ["cmake", "--build", build, "--target", "gpu_double", "--target", "handler_caller"],
    ):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)
    return build / "tests" / "gpu_double"
