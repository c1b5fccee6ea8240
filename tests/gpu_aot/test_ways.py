"""How `inspect` says that each collective runs is what the thunks of the serialised executable say."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import pytest
from compiler_runs import HERE, WHEELS, Compiler
from executable_thunks import CollectiveThunk, collective_thunks

from gpu_compile.environment import compile_environment
from xla_shmem.inspect.modules import read_inspected

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the modes came with jax 0.12; older thunks differ"),
]

FLAGS = {
    "default": [],
    "modes": [f"--xla_gpu_{op}_mode=symmetric" for op in ("all_gather", "collective_permute")],
    "peer": ["--xla_gpu_collective_permute_mode=peer", "--xla_gpu_use_memcpy_local_p2p=true"],
    "windows": ["--xla_gpu_experimental_enable_nccl_symmetric_buffers=true"],
    "registered": ["--xla_gpu_enable_nccl_user_buffers=true"],
    "windows and modes": [
        "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
        "--xla_gpu_all_gather_mode=symmetric",
    ],
    "no kernels": ["--xla_gpu_experimental_use_collective_kernels="],
    "ragged by NCCL": ["--xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=false"],
}


def _way(thunk: CollectiveThunk, flags: list[str]) -> str:
    """What a thunk does first. It takes NCCL instead if a group is not in one process."""
    if thunk.op == "collective kernel":
        return "kernel"
    if thunk.op == "ragged-all-to-all" and not any("one_shot_kernel=false" in flag for flag in flags):
        return "one-shot kernel"
    if thunk.mode == "symmetric":
        return "one-sided"
    if thunk.mode == "peer" or thunk.copies:
        return "peer copies"
    if not thunk.space:
        return "NCCL"  # without windows, whatever its config says
    return "NCCL symmetric" if thunk.windows else "NCCL registered"


def _said(record: dict[str, Any]) -> tuple[str, str]:
    if record["kernel"]:
        return "collective kernel", "kernel"
    return record["op"], record["way"]


def _compare(compiler: Compiler, tmp_path: Path, key: str, seed: int, count: int) -> tuple[int, set[str]]:
    """Returns the number of modules that were compared, and the ways in them."""
    dumps = [f"--xla_dump_to={tmp_path}", "--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"]
    subprocess.run(
        [sys.executable, str(HERE / "worker_ways.py"), str(tmp_path), str(seed), str(count)],
        env=compile_environment(WHEELS, [*dumps, *FLAGS[key]]),
        check=True,
        timeout=350,
    )
    ways: set[str] = set()
    modules = {module.input.name: module for module in read_inspected(str(tmp_path), lambda record: True)}
    executables = list(tmp_path.glob("*.executable"))
    for file in executables:
        said = Counter(_said(dict(record)) for record in modules[f"jit_{file.stem}"].records)
        thunks = collective_thunks(file.read_bytes())
        assert said == Counter((thunk.op, _way(thunk, FLAGS[key])) for thunk in thunks), file.stem
        ways.update(way for _, way in said)
    return len(executables), ways


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("default", {"NCCL", "one-shot kernel", "kernel"}),
        ("modes", {"NCCL", "one-sided", "one-shot kernel", "kernel"}),
        ("peer", {"NCCL", "peer copies", "one-shot kernel", "kernel"}),
        ("windows", {"NCCL", "NCCL symmetric", "one-shot kernel", "kernel"}),
        ("registered", {"NCCL", "NCCL registered", "one-shot kernel", "kernel"}),
    ],
)
def test_inspect_names_the_ways_of_the_thunks(compiler: Compiler, tmp_path: Path, key: str, expected: set[str]) -> None:
    assert _compare(compiler, tmp_path, key, seed=7, count=8) == (8, expected)


@pytest.mark.slow
@pytest.mark.parametrize("key", FLAGS)
def test_in_hundreds_of_modules_too(compiler: Compiler, tmp_path: Path, key: str) -> None:
    assert _compare(compiler, tmp_path, key, seed=len(key), count=25)[0] == 25
