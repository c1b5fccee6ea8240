"""Collectives that cross NVLink domains run in parts, in jobs whose domains have two devices each."""

from __future__ import annotations

from collections.abc import Callable

import cases_divided
import pytest
from case_world import CASES
from job_runs import QUICK_COMPILATION, JobRun, Reports, run_job
from selected_cases import selected_cases

NAMES = [name for name, each in CASES.items() if each.run.__module__ == cases_divided.__name__]
# Processes x devices a process: domains of two processes, of one process, and three domains.
SHAPES = ("4x1", "2x2", "6x1")


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], tuple[JobRun, Reports]]:
    """Runs the job of a shape once, with the selected cases."""
    jobs: dict[str, JobRun] = {}

    def reports_of(shape: str, name: str) -> tuple[JobRun, Reports]:
        if shape not in jobs:
            results = tmp_path_factory.mktemp(shape)
            (results / "cases.txt").write_text("\n".join(selected_cases(request, shape=shape)))
            ranks, devices = (int(part) for part in shape.split("x"))
            jobs[shape] = run_job(
                "worker_cases.py",
                [str(results / "cases.txt")],
                ranks=ranks,
                devices=devices,
                results=results,
                timeout=280,
                cold=True,
                XLA_FLAGS=QUICK_COMPILATION,
                JAX_ENABLE_X64="1",
                XLA_SHMEM_PROFILE="domain",
                XLA_SHMEM_NVLINK_DOMAIN="2",
                XLA_SHMEM_HIERARCHICAL="on",
                XLA_SHMEM_OPS="all",
                XLA_SHMEM_DEADLINE="30",
                NPROC="64" if devices > 1 else "",
            )
        return jobs[shape], jobs[shape].reports_of(name)

    return reports_of


@pytest.mark.timeout(360)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [*SHAPES[:2], pytest.param(SHAPES[2], marks=pytest.mark.slow)])
def test_divided(shape: str, name: str, reports: Callable[[str, str], tuple[JobRun, Reports]]) -> None:
    job, of_rank = reports(shape, name)
    for rank in range(int(shape.split("x")[0])):
        assert of_rank.get(rank), f"rank {rank} did not get to this case:\n{job.output[-6000:]}"
        assert not of_rank[rank]["error"], f"rank {rank}: {of_rank[rank]['error']}"
        assert of_rank[rank]["digests"] == of_rank[0]["digests"], f"ranks 0 and {rank} have other bits"
