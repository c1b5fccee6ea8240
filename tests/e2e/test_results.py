"""Results on SHMEM equal NumPy's, on jobs of every shape. One job a shape runs all its cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from all_cases import CASES
from case_world import OPS, SHAPES
from job_runs import QUICK_COMPILATION, JobRun, Reports, run_job
from selected_cases import selected_cases


def _parameters() -> list[ParameterSet]:
    found = []
    for shape in SHAPES:
        for name, case in CASES.items():
            if shape in case.fast + case.slow:
                marks = () if shape in case.fast else (pytest.mark.slow,)
                found.append(pytest.param(shape, name, id=f"{shape}-{name}", marks=marks))
    return found


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
                timeout=220,
                cold=True,
                XLA_FLAGS=QUICK_COMPILATION,
                JAX_ENABLE_X64="1",
                XLA_SHMEM_THRESHOLD="2MiB",
                XLA_SHMEM_OPS=OPS,
                XLA_SHMEM_DEADLINE="20",
                # A run of XLA:CPU holds one thread of its pool for each device. With no more threads than devices,
                # stock jobs also hang as soon as several runs are in flight.
                NPROC="64" if devices > 1 else "",
            )
        return jobs[shape], jobs[shape].reports_of(name)

    return reports_of


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("shape", "name"), _parameters())
def test_result(shape: str, name: str, reports: Callable[[str, str], tuple[JobRun, Reports]]) -> None:
    job, of_rank = reports(shape, name)
    ranks = int(shape.split("x")[0])
    for rank in range(ranks):
        assert of_rank.get(rank), f"rank {rank} did not get to this case:\n{job.output[-6000:]}"
        assert not of_rank[rank]["error"], f"rank {rank}: {of_rank[rank]['error']}"
        assert of_rank[rank]["digests"] == of_rank[0]["digests"], f"ranks 0 and {rank} have other bits"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("setting", [{"XLA_SHMEM_SINGLE_COPY": "off"}], ids=str)
def test_large_messages_arrive_with_other_settings_too(tmp_path: Path, setting: dict[str, str]) -> None:
    names = ["sizes_around_every_limit_are_right", "permute_of_any_size_arrives"]
    (tmp_path / "cases.txt").write_text("\n".join(names))
    job = run_job(
        "worker_cases.py",
        [str(tmp_path / "cases.txt")],
        ranks=2,
        results=tmp_path,
        JAX_ENABLE_X64="1",
        XLA_SHMEM_OPS=OPS,
        **setting,
    )
    for reports in job.results.values():
        assert [(report["case"], report["error"]) for report in reports] == [(name, "") for name in names]
    assert len(job.results) == 2, job.output[-6000:]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_collectives_may_keep_the_thread_of_xla(tmp_path: Path) -> None:
    # As where the default backend is MPI (test_mpi.py). Collectives that do not depend on each other become ready in
    # any order. Unless the pass puts them in one, ranks soon wait for each other.
    names = [name for name, case in CASES.items() if "2x1" in case.fast]
    names.append("independent_loops_branches_and_collectives_of_both_backends_do_not_mix")
    names += 20 * ["many_independent_ops_in_one_program_do_not_mix"]
    (tmp_path / "cases.txt").write_text("\n".join(names))
    settings = {"XLA_SHMEM_OPS": OPS, "XLA_SHMEM_THRESHOLD": "2MiB", "XLA_FLAGS": QUICK_COMPILATION}
    arguments = [str(tmp_path / "cases.txt")]
    job = run_job(
        "worker_cases.py",
        arguments,
        ranks=2,
        results=tmp_path,
        timeout=220,
        JAX_ENABLE_X64="1",
        E2E_AS_ON_MPI="1",
        JAX_CPU_ENABLE_ASYNC_DISPATCH="0",  # as JAX demands with MPI
        **settings,
    )
    for reports in job.results.values():
        assert [(report["case"], report["error"]) for report in reports] == [(name, "") for name in names]
    assert len(job.results) == 2, job.output[-6000:]


@pytest.mark.timeout(120)
def test_threads_may_run_programs_that_differ_in_a_constant(tmp_path: Path) -> None:
    (tmp_path / "cases.txt").write_text("threads_run_programs_that_differ_in_a_constant")
    # XLA:CPU has a thread for each core, and each run in flight takes one, on stock JAX too.
    threads = {"NPROC": "64", "PJRT_NPROC": "64"}
    job = run_job("worker_cases.py", [str(tmp_path / "cases.txt")], ranks=2, results=tmp_path, **threads)
    for reports in job.results.values():
        assert [report["error"] for report in reports] == [""]
    assert len(job.results) == 2, job.output[-6000:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("shape", "name"), [("2x1", "ring_passes_each_block_to_the_next")], ids=["2x1"])
def test_job_ends_well_and_leaves_nothing_behind(
    shape: str, name: str, reports: Callable[[str, str], tuple[JobRun, Reports]]
) -> None:
    job, _ = reports(shape, name)
    assert job.exit_code == 0, job.output[-6000:]
    assert job.segments == []
