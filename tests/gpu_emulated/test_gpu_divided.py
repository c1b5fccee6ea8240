"""Collectives over two NVLink domains of two emulated GPUs: parts on SHMEM in a domain, one on NCCL between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator

pytestmark = pytest.mark.timeout(300)

_SUM = ("all-reduce", ["all_gather_parts", "reduce_scatter_parts"], 2, 1)
_PERMUTE = ("collective-permute", ["collective_permute_parts"], 1)
_WHOLE: tuple[list[str], int] = ([], 0)
#: What a program has left for NCCL; the SHMEM calls in its module; calls of SHMEM, and of NCCL on rank 0, in a run.
PARTS: dict[str, tuple[str, list[str], int, int]] = {
    "sum": _SUM,
    "one": _SUM,
    "largest": _SUM,
    "beside": _SUM,
    "loop": ("all-reduce", ["all_gather_parts", "reduce_scatter_parts"], 6, 3),
    "gather": ("all-gather", ["all_gather_parts"], 1, 1),
    "scatter": ("reduce-scatter", ["reduce_scatter_parts"], 1, 1),
    "exchange": ("all-to-all", ["all_to_all_parts"], 1, 1),
    "broadcast": ("collective-broadcast", ["collective_broadcast"], 1, 1),
    "shift": (*_PERMUTE, 1),
    "some": (*_PERMUTE, 0),
}
#: With a device of each domain in turn. Every pair of the shift crosses domains.
IN_TURN = {
    "exchange": ("all-to-all", *_WHOLE, 1),
    "shift": ("collective-permute", *_WHOLE, 2),
    "some": (*_PERMUTE, 1),
}


def _run(
    emulator: Emulator, results: Path, programs: list[str], flags: tuple[str, ...], **environ: str
) -> dict[int, list[dict[str, Any]]]:
    options = {
        "XLA_SHMEM_NVLINK_DOMAIN": "2",
        "XLA_SHMEM_HIERARCHICAL": "on",
        "XLA_SHMEM_PROFILE": "domain",
        "XLA_SHMEM_OPS": "all",
    }
    job = run_emulated(
        emulator,
        "worker_divided.py",
        programs,
        ranks=4,
        results=results,
        flags=flags,
        timeout=280,
        **(options | environ),
    )
    assert job.exit_code == 0, job.output[-6000:]
    found: dict[int, list[dict[str, Any]]] = {rank: job.results[rank] for rank in range(4)}
    for rank, reports in found.items():
        assert len(reports) == 4 * len(programs)
        for report in reports:
            assert report["wrong"] == [], f"rank {rank}: {report}"
    return found


def _check_parts(results: dict[int, list[dict[str, Any]]]) -> None:
    for report in results[0]:
        wanted = PARTS if report["order"] == "rows" else PARTS | IN_TURN
        left, parts, shmem, nccl = wanted[report["program"]]
        found = (report["left"], report["parts"], report["shmem"], report["nccl"])
        assert found == ([left], parts, shmem, nccl), report


def test_sums_have_two_parts_on_shmem_and_one_on_nccl(emulator: Emulator, tmp_path: Path) -> None:
    _check_parts(_run(emulator, tmp_path, ["sum"], NO_GRAPH_FLAGS))


@pytest.mark.slow
def test_every_op_is_divided(emulator: Emulator, tmp_path: Path) -> None:
    _check_parts(_run(emulator, tmp_path, list(PARTS), NO_GRAPH_FLAGS))


@pytest.mark.slow
def test_every_op_is_right_in_graphs(emulator: Emulator, tmp_path: Path) -> None:
    _run(emulator, tmp_path, list(PARTS), GRAPH_FLAGS)


@pytest.mark.slow
def test_auto_leaves_them_whole_on_nccl(emulator: Emulator, tmp_path: Path) -> None:
    results = _run(emulator, tmp_path, ["sum"], NO_GRAPH_FLAGS, XLA_SHMEM_HIERARCHICAL="auto")
    assert {(report["shmem"], report["nccl"]) for report in results[0]} == {(0, 1)}
