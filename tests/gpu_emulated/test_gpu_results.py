"""The cases of tests/e2e on emulated GPUs, against NumPy. One job a world size runs all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from all_cases import CASES
from case_world import OPS
from cases_not_on_gpus import END_THE_PROCESS, NO_COLLECTIVE_RUNS, NOT_ON_GPUS
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator
from job_runs import JobRun

SHAPES = {"2x1": 2, "4x1": 4}
Reports = dict[int, dict[str, object]]


def _parameters() -> list[ParameterSet]:
    found = []
    for shape in SHAPES:
        for name, case in CASES.items():
            if shape in case.fast + case.slow and name not in END_THE_PROCESS:
                quick = shape == "2x1" and shape in case.fast
                found.append(pytest.param(shape, name, id=f"{shape}-{name}", marks=() if quick else pytest.mark.slow))
    return found


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, emulator: Emulator
) -> Callable[[str, str], tuple[JobRun, Reports]]:
    """Runs the job of a world size once, with the selected cases."""
    jobs: dict[str, JobRun] = {}

    def reports_of(shape: str, name: str) -> tuple[JobRun, Reports]:
        if shape not in jobs:
            calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
            names = [call["name"] for call in calls if call.get("shape") == shape]
            results = tmp_path_factory.mktemp(shape)
            (results / "cases.txt").write_text("\n".join(names))
            jobs[shape] = run_emulated(
                emulator,
                "worker_gpu_cases.py",
                [str(results / "cases.txt")],
                ranks=SHAPES[shape],
                results=results,
                timeout=500,
                flags=NO_GRAPH_FLAGS,  # a graph that is launched again calls no handler, so its runs are not counted
                JAX_ENABLE_X64="1",
                XLA_SHMEM_THRESHOLD="2MiB",
                XLA_SHMEM_OPS=OPS,
                XLA_SHMEM_DEADLINE="60",
            )
        job = jobs[shape]
        of_rank = {
            rank: next((report for report in reports if report["case"] == name), {})
            for rank, reports in job.results.items()
        }
        return job, of_rank

    return reports_of


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "name"), _parameters())
def test_result(shape: str, name: str, reports: Callable[[str, str], tuple[JobRun, Reports]]) -> None:
    job, of_rank = reports(shape, name)
    for rank in range(SHAPES[shape]):
        assert of_rank.get(rank), f"rank {rank} did not get to this case:\n{job.output[-6000:]}"
        result = of_rank[rank]
        assert not result["error"], f"rank {rank}: {result['error']}"
        assert result["unsupported"] == NOT_ON_GPUS.get(name, ""), f"rank {rank}: {result['unsupported']}"
        if result["unsupported"]:
            continue
        assert result["digests"] == of_rank[0]["digests"], f"ranks 0 and {rank} have other bits"
        ran, announced = result["ran"], result["expected"]
        counted = ran == announced if result["exact"] else ran >= announced
        assert counted, f"rank {rank}: {ran} collectives ran on NVSHMEM, the modules announce {announced}"
        assert (ran > 0) == (name not in NO_COLLECTIVE_RUNS), f"rank {rank}: {ran} collectives ran on NVSHMEM"
