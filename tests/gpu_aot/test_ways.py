"""How `inspect` says that each collective runs is what the thunks of the serialised executable say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import pytest
from compared_ways import compared_ways
from compiler_runs import FLAG, HERE, WHEELS, Compiler
from fused_programs import release_fuses

from gpu_compile.environment import compile_environment

pytestmark = pytest.mark.timeout(400)

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
    "ragged by NCCL": ["--xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=false"],
}
if jax.__version_info__ >= (0, 11):
    FLAGS |= {
        "no kernels": ["--xla_gpu_experimental_use_collective_kernels="],
        "windows of some": [
            "--xla_enable_nccl_symmetric_buffers_for_collectives=AllReduce:8192,AllGather,AllToAll:2097152:F32"
        ],
    }
#: What each of the fast sets of flags adds to the ways that all have.
COMMON = {"NCCL", "copy", "one-shot kernel"} | ({"kernel"} if release_fuses() else set())
EXPECTED = {
    "default": set(),
    "modes": {"one-sided"},
    "peer": {"peer copies"},
    "windows": {"NCCL symmetric"},
    "registered": {"NCCL registered"},
}


def _compare(folder: Path, flags: list[str], *what: str) -> dict[str, Counter[str]]:
    """Returns how many collectives of each program run in each way."""
    dumps = [f"--xla_dump_to={folder}", "--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"]
    subprocess.run(
        [sys.executable, str(HERE / "worker_ways.py"), str(folder), *what],
        env=compile_environment(WHEELS, [*dumps, *flags]),
        check=True,
        timeout=350,
    )
    return compared_ways(folder)


@pytest.mark.parametrize("key", EXPECTED)
def test_inspect_names_the_ways_of_the_thunks(compiler: Compiler, tmp_path: Path, key: str) -> None:
    ways = _compare(tmp_path, FLAGS[key], "7", "8")
    assert len(ways) == 8
    assert {way for found in ways.values() for way in found} == COMMON | EXPECTED[key]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("flags", [[], [FLAG]], ids=["stock", "flag"])
def test_in_a_training_step_of_llama_too(compiler: Compiler, tmp_path: Path, flags: list[str]) -> None:
    job = {"preset": "demo", "width": 512, "layers": 3, "heads": 8, "kv_heads": 8, "dtype": "bf16"}
    job |= {"context": 2, "tensor": 4, "tensor_matmul": "sync"}
    (ways,) = _compare(tmp_path, flags, json.dumps(job)).values()
    stock = {"NCCL": 7, "kernel": 8} if release_fuses() else {"NCCL": 15}
    assert ways == ({"NVSHMEM": 15} if flags else stock)


@pytest.mark.slow
@pytest.mark.parametrize("key", FLAGS)
def test_in_hundreds_of_modules_too(compiler: Compiler, tmp_path: Path, key: str) -> None:
    assert len(_compare(tmp_path, FLAGS[key], str(len(key)), "25")) == 25
