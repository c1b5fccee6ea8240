"""Reductions and all-gathers by the NVLink switch (XLA_SHMEM_GPU_REDUCE=multimem), by JAX on emulated GPUs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator
from worker_multimem import BESIDE_IT, GATHERED, IN_SWITCH, OF_SOME, ROUNDS

pytestmark = pytest.mark.timeout(300)

_IMPORTS = re.compile(r"cuMemImportFromShareableHandle \((file|fabric)\): (memory|multicast object)")
_LAUNCH = re.compile(r"cuLaunchKernel(?:Ex)? (switch_reduction|switch_gather|move|reduce)(?:_packets)? ")


def _launches(
    emulator: Emulator, results: Path, ranks: int, flags: tuple[str, ...], devices: int = 1, **environ: str
) -> tuple[Counter[str], str]:
    """Runs the worker; returns the launches of our kernels on all GPUs, and the job's output."""
    settings = {
        "XLA_SHMEM_GPU_REDUCE": "multimem",
        "XLA_SHMEM_OPS": "all-reduce,reduce-scatter,all-gather",
        "GPU_EMULATOR_COMPUTE_CAPABILITY": "90",
        "GPU_EMULATOR_TRACE": "1",
        "GPU_EMULATOR_LOG": str(results / "log"),
    }
    job = run_emulated(
        emulator,
        "worker_multimem.py",
        ranks=ranks,
        devices=devices,
        results=results,
        flags=flags,
        **(settings | environ),
    )
    assert job.exit_code == 0, job.output[-6000:]
    return Counter(_LAUNCH.findall((results / "log").read_text(errors="replace"))), job.output


def _expected(gpus: int) -> dict[str, int]:
    """Launches of a job whose switch reduces. Two GPUs gather sooner without it."""
    some = len(OF_SOME) if gpus > 2 else 0
    gathers = "switch_gather" if gpus >= 4 else "move"
    of_one = {"switch_reduction": len(IN_SWITCH), "reduce": len(BESIDE_IT) + some, gathers: len(GATHERED)}
    return {kernel: gpus * ROUNDS * launches for kernel, launches in of_one.items()}


#: Of two GPUs.
_WITHOUT = {"reduce": 2 * ROUNDS * (len(IN_SWITCH) + len(BESIDE_IT)), "move": 2 * ROUNDS * len(GATHERED)}


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_the_switch_reduces_for_all_gpus_and_the_kernel_the_rest(
    emulator: Emulator, tmp_path: Path, ranks: int
) -> None:
    launches, output = _launches(emulator, tmp_path, ranks, NO_GRAPH_FLAGS)
    assert launches == _expected(ranks)
    assert "has no multicast memory" not in output


@pytest.mark.parametrize(
    ("ranks", "devices", "hosts"),
    [
        pytest.param(1, 2, 1, marks=pytest.mark.slow),
        (1, 4, 1),
        pytest.param(2, 2, 1, marks=pytest.mark.slow),
        (2, 2, 2),
        pytest.param(2, 1, 1, marks=pytest.mark.slow),
    ],
)
def test_the_switch_reduces_on_the_drivers_memory(
    emulator: Emulator, tmp_path: Path, ranks: int, devices: int, hosts: int
) -> None:
    environ = {"XLA_SHMEM_GPU_HEAP": "driver"} | (emulator.hosts(hosts) if hosts > 1 else {})
    launches, output = _launches(emulator, tmp_path, ranks, NO_GRAPH_FLAGS, devices=devices, **environ)
    gpus = ranks * devices
    imported = Counter(_IMPORTS.findall((tmp_path / "log").read_text(errors="replace")))
    way = "file" if hosts == 1 else "fabric"
    memory = {(way, "memory"): gpus * (ranks - 1), (way, "multicast object"): ranks - 1}
    assert imported == {what: count for what, count in memory.items() if count}
    assert launches == _expected(gpus)
    assert "has no multicast memory" not in output


@pytest.mark.slow
def test_the_switch_works_in_cuda_graphs(emulator: Emulator, tmp_path: Path) -> None:
    launches, _ = _launches(emulator, tmp_path, 4, GRAPH_FLAGS)
    assert launches["switch_reduction"] > 0
    assert launches["switch_gather"] > 0


@pytest.mark.slow
def test_gpus_without_nvlink_sharp_reduce_by_the_kernel_on_the_drivers_memory_too(
    emulator: Emulator, tmp_path: Path
) -> None:
    launches, output = _launches(emulator, tmp_path, 1, NO_GRAPH_FLAGS, devices=2, GPU_EMULATOR_NVLS="0")
    assert launches == _WITHOUT
    assert output.count("XLA_SHMEM_GPU_REDUCE=multimem: process 0 has no multicast memory") == 1


@pytest.mark.parametrize(
    "without",
    [
        {"GPU_EMULATOR_NVLS": "0"},
        pytest.param({"GPU_EMULATOR_COMPUTE_CAPABILITY": "85"}, marks=pytest.mark.slow),
    ],
)
def test_without_nvlink_sharp_the_log_says_so_and_the_kernel_reduces(
    emulator: Emulator, tmp_path: Path, without: dict[str, str]
) -> None:
    launches, output = _launches(emulator, tmp_path, 2, NO_GRAPH_FLAGS, **without)
    assert launches == _WITHOUT
    assert output.count("XLA_SHMEM_GPU_REDUCE=multimem: process 0 has no multicast memory") == 1
