"""Transfers of processes without XLA, from the agreement on: by the driver's or NVSHMEM's calls, on rings or teams."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import process_jobs
import pytest
from emulator import Emulator

CASES = (
    "permutes_round_a_ring",
    "permutes_down_an_open_chain_to_oneself_and_nowhere",
    "permutes_of_operands_of_several_types",
    "permutes_in_place_and_as_one_call",
    "compute_between_start_and_done_ends_before_the_peers_start",
    "transfers_in_flight_are_joined_in_another_order",
    "all_reduces_of_all_types",
    "all_reduces_of_several_sizes_in_place_and_as_one_call",
)

# nvshmemx_<type>_<operation>_reduce_on_stream, of 12 types and 4 operations.
_REDUCTION = re.compile(r"nvshmemx_\w+_reduce_on_stream")
_REDUCTIONS = 48


@dataclass(frozen=True)
class Job:
    """A job. PEs on one GPU cannot use NVSHMEM's calls on streams."""

    processes: int
    gpus: int
    puts: str = "auto"
    reduce: str = "rings"
    driver: str = "13000"

    def __str__(self) -> str:
        return f"{self.processes}-on-{self.gpus}-{self.puts}-{self.reduce}-{self.driver}"


JOBS = (
    Job(2, 2, puts="nvshmem"),
    Job(3, 3),
    Job(3, 3, driver="13010"),  # no stream memory operations on other GPUs
    Job(4, 2),
    Job(4, 4, puts="nvshmem", reduce="teams"),
    Job(3, 3, reduce="teams"),
)


@pytest.fixture(scope="module")
def outcomes(
    emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Job], tuple[list[dict[str, str]], str]]:
    """Runs a job once; returns the error of each case in each process, and the emulator's log."""
    known: dict[Job, tuple[list[dict[str, str]], str]] = {}

    def of(job: Job) -> tuple[list[dict[str, str]], str]:
        if job not in known:
            directory = tmp_path_factory.mktemp("job")
            environ = {
                "XLA_SHMEM_GPU_PUTS": job.puts,
                "XLA_SHMEM_GPU_REDUCE": job.reduce,
                "GPU_EMULATOR_VERSION": job.driver,
                "GPU_EMULATOR_TRACE": "1",
                "GPU_EMULATOR_LOG": str(directory / "log"),
            }
            ended = process_jobs.run_processes(
                emulator, "worker_transfers.py", job.processes, directory, str(job.gpus), **environ
            )
            known[job] = process_jobs.reports(ended), (directory / "log").read_text(errors="replace")
        return known[job]

    return of


@pytest.mark.timeout(180)
@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_result(name: str, job: Job, outcomes: Callable[[Job], tuple[list[dict[str, str]], str]]) -> None:
    reports, _ = outcomes(job)
    assert tuple(reports[0]) == CASES
    failures = [f"process {process}: {report[name]}" for process, report in enumerate(reports) if report[name]]
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("job", JOBS, ids=str)
def test_nvshmem_reduces_on_teams_only_if_it_is_asked_to(
    job: Job, outcomes: Callable[[Job], tuple[list[dict[str, str]], str]]
) -> None:
    called = set(_REDUCTION.findall(outcomes(job)[1]))
    assert len(called) == (_REDUCTIONS if job.reduce == "teams" else 0), called
