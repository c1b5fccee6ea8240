"""Collectives on NCCL: stock JAX on emulated GPUs, and NCCL across NVLink domains beside SHMEM within them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulated_jobs import HERE, run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator
from job_runs import JobRun

from xla_shmem.gpu_ways import settable

pytestmark = pytest.mark.timeout(300)

PROGRAMS, TYPES = 6, 5


def _results(job: JobRun, ranks: int, meshes: int) -> Iterator[dict[str, object]]:
    """The reports of a job, in which no element is wrong."""
    assert job.exit_code == 0, job.output[-6000:]
    for rank in range(ranks):
        reports = job.results[rank]
        assert len(reports) == PROGRAMS * TYPES * meshes
        for report in reports:
            assert report["wrong"] == [], f"rank {rank}: {report}"
            yield report


@pytest.mark.parametrize(
    ("ranks", "devices", "flags"),
    [
        pytest.param(2, 1, GRAPH_FLAGS, id="2x1-graphs"),
        pytest.param(1, 2, NO_GRAPH_FLAGS, id="1x2"),
        *(
            pytest.param(ranks, devices, flags, id=f"{ranks}x{devices}{graphs}", marks=pytest.mark.slow)
            for flags, graphs in ((NO_GRAPH_FLAGS, ""), (GRAPH_FLAGS, "-graphs"))
            for ranks, devices in ((4, 1), (1, 4), (1, 8), (2, 2), (2, 4))
        ),
    ],
)
def test_stock_collectives_run_on_nccl(
    emulator: Emulator, tmp_path: Path, ranks: int, devices: int, flags: tuple[str, ...]
) -> None:
    job = run_emulated(
        emulator,
        "worker_nccl.py",
        [str(ranks * devices // 2)],
        ranks=ranks,
        devices=devices,
        results=tmp_path,
        flags=flags,
        flag=False,
        timeout=280,
    )
    for report in _results(job, ranks, meshes=2 if ranks * devices == 2 else 3):
        assert len(report["left"]) == 1  # type: ignore[arg-type]
        assert report["ours"] == 0


# Flags of XLA for a way, what NCCL must then do, and in which programs.
PUTS = ("--xla_gpu_all_gather_mode=symmetric", "--xla_gpu_collective_permute_mode=symmetric")
WINDOWS = ("--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",)
PEER = ("--xla_gpu_collective_permute_mode=peer", "--xla_gpu_use_memcpy_local_p2p=true")


@pytest.mark.parametrize(
    ("devices", "flags", "way", "programs"),
    [
        pytest.param(devices, flags, way, programs, id=f"{way}-1x{devices}", marks=marks)
        for devices, marks in ((2, ()), (4, pytest.mark.slow))
        for flags, way, programs in (
            (PUTS, "puts", {"gather", "shift"}),
            (WINDOWS, "windows", {"sum", "largest", "shift", "gather", "scatter", "exchange"}),
            (PEER, "copies", {"exchange", "shift"}),
        )
    ],
)
def test_other_ways_of_xla_give_the_same(
    emulator: Emulator, tmp_path: Path, devices: int, flags: tuple[str, ...], way: str, programs: set[str]
) -> None:
    job = run_emulated(
        emulator,
        "worker_nccl.py",
        [str(devices // 2)],
        ranks=1,
        devices=devices,
        results=tmp_path,
        flags=(*NO_GRAPH_FLAGS, *flags),
        flag=False,
        timeout=280,
        XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB="64",
    )
    found = list(_results(job, 1, meshes=2 if devices == 2 else 3))
    seen = {report["program"] for report in found if (report["calls"] == 0 if way == "copies" else report[way])}
    assert seen == programs


@pytest.mark.skipif(not settable("gpu"), reason="the pass chooses no way of this release")
def test_all_gathers_that_the_pass_makes_one_sided_are_right(emulator: Emulator, tmp_path: Path) -> None:
    devices = 4  # groups of two stay, NVIDIA/nccl issue 2241
    paths = os.pathsep.join(str(HERE.parent / folder) for folder in ("e2e", "gpu_aot"))
    job = run_emulated(
        emulator,
        "worker_chosen_ways.py",
        [str(tmp_path)],
        ranks=1,
        devices=devices,
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,
        timeout=280,
        XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB="64",
        PYTHONPATH=os.pathsep.join([emulator.variables(devices)["PYTHONPATH"], paths]),
    )
    assert job.exit_code == 0, job.output[-6000:]
    found = job.results[0]
    assert len(found) == 7 * 3
    assert [report for report in found if not report["right"]] == []
    assert {tuple(report["backends"]) for report in found} == {("DEFAULT",)}
    assert all(report["puts"] > 0 and report["calls"] == 0 for report in found if report["program"] != "branch")
    assert [report["puts"] > 0 for report in found if report["program"] == "branch"] == [True, True, False]


@pytest.mark.parametrize(
    ("ranks", "devices"),
    [(1, 2), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in ((1, 4), (1, 8), (2, 2)))],
)
def test_stock_jax_computes_on_each_gpu_of_a_process_and_copies_between_them(
    emulator: Emulator, tmp_path: Path, ranks: int, devices: int
) -> None:
    job = run_emulated(emulator, "worker_devices.py", ranks=ranks, devices=devices, results=tmp_path, flag=False)
    for rank in range(ranks):
        assert job.result(rank) == {"devices": devices, "all": ranks * devices, "wrong": []}


# The host's calls wait at other places with each seed (blocking.h of the emulator), and work is held back for longer.
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_stock_jax_does_not_hang_where_calls_of_the_host_wait(emulator: Emulator, tmp_path: Path, seed: int) -> None:
    job = run_emulated(
        emulator,
        "worker_nccl.py",
        ["2"],
        ranks=1,
        devices=4,
        results=tmp_path,
        flag=False,
        timeout=280,
        GPU_EMULATOR_SEED=str(seed),
        GPU_EMULATOR_DELAY="3000",
    )
    assert len(list(_results(job, 1, meshes=3))) == PROGRAMS * TYPES * 3


@pytest.mark.slow
@pytest.mark.parametrize("flags", [NO_GRAPH_FLAGS, GRAPH_FLAGS])
def test_groups_across_nvlink_domains_stay_on_nccl_beside_shmem(
    emulator: Emulator, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    # GPUs 0 and 2 are one domain, 1 and 3 the other: the columns of a mesh of two rows and two columns.
    job = run_emulated(
        emulator,
        "worker_nccl.py",
        ["2"],
        ranks=4,
        results=tmp_path,
        flags=flags,
        timeout=280,
        GPU_EMULATOR_LINK_DOMAINS="2",
        XLA_SHMEM_PROFILE="domain",
        XLA_SHMEM_OPS="all",
    )
    for report in _results(job, 4, meshes=3):
        crosses = report["axes"] != ["rows"]
        assert (len(report["left"]) == 1) == crosses, report  # type: ignore[arg-type]
        assert (report["ours"] == 0) == crosses, report


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"GPU_EMULATOR_FULL_GPU": "1"}, "on device 1 failed with CUDA_ERROR_OUT_OF_MEMORY"),
        pytest.param(
            {"GPU_EMULATOR_UNREACHED_GPU": "1"},
            "process 0: cuMemSetAccess to the memory of PE 0, device 0, for the GPUs of this process failed with",
            marks=pytest.mark.slow,
        ),
        pytest.param({"GPU_EMULATOR_LINK_DOMAINS": "2"}, " is out of reach of ", marks=pytest.mark.slow),
        ({"GPU_EMULATOR_MIG": "1"}, " is out of reach of "),
    ],
    ids=["full", "unmapped", "unlinked", "mig"],
)
def test_what_two_gpus_of_a_process_cannot_share_stays_on_nccl_with_the_reason(
    emulator: Emulator, tmp_path: Path, fault: dict[str, str], reason: str
) -> None:
    job = run_emulated(
        emulator,
        "worker_nccl.py",
        ["1"],
        ranks=1,
        devices=2,
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,
        timeout=280,
        XLA_SHMEM_OPS="all",
        XLA_SHMEM_VERBOSE="1",
        **fault,
    )
    for report in _results(job, 1, meshes=2):
        assert len(report["left"]) == 1, report  # type: ignore[arg-type]
        assert report["ours"] == 0
    job.line_with(reason)


def test_ranks_in_different_calls_are_named(emulator: Emulator, tmp_path: Path) -> None:
    job = run_emulated(
        emulator, "../e2e/worker_failures.py", ["runs_another_shape"], ranks=2, results=tmp_path, flag=False
    )
    assert job.exit_code != 0
    line = job.line_with("emulated NCCL: rank ")
    assert "is in ncclAllReduce of 10" in line
    assert "but rank" in line
