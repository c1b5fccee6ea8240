"""Transfers of processes without XLA, from the agreement on: permutes by the kernel, the driver's or NVSHMEM's calls,
with and without reductions in the NVLink switch."""

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
    "small_messages_follow_each_other",
)

_IN_SWITCH = re.compile(r"cuLaunchKernel switch_reduction ")


@dataclass(frozen=True)
class Job:
    """A job. PEs on one GPU cannot use NVSHMEM's calls on streams, nor multicast memory."""

    processes: int
    gpus: int
    puts: str = "auto"
    permute: str = "auto"
    reduce: str = "kernel"
    driver: str = "13000"
    capability: str = "85"
    nvls: str = "1"

    def __str__(self) -> str:
        options = f"{self.puts}-{self.permute}-{self.reduce}"
        return f"{self.processes}-on-{self.gpus}-{options}-{self.driver}-{self.capability}-{self.nvls}"

    @property
    def has_multicast(self) -> bool:
        return self.processes <= self.gpus and int(self.capability) >= 90 and self.nvls == "1"


JOBS = (
    Job(2, 2, puts="nvshmem", permute="copies"),
    Job(3, 3, permute="copies", driver="13010"),  # no stream memory operations on other GPUs
    Job(4, 2, driver="12020"),  # no stream memory operations on NVSHMEM's memory: all permutes are kernels
    Job(2, 2, puts="nvshmem", reduce="multimem", capability="90", driver="12090"),
)
#: Not in `make test`.
MORE_JOBS = (
    Job(3, 3),
    Job(4, 2),
    Job(2, 2, permute="copies", driver="12050"),
    Job(2, 2, puts="nvshmem", permute="copies", driver="12020"),
    Job(3, 3, permute="copies"),
    Job(4, 4, reduce="multimem", capability="100"),
    Job(3, 3, reduce="multimem", capability="90", nvls="0"),
    Job(2, 2, reduce="multimem"),  # GPUs without the instructions
    Job(4, 2, reduce="multimem", capability="90"),
)
ALL_JOBS = pytest.mark.parametrize(
    "job", [*JOBS, *(pytest.param(job, marks=pytest.mark.slow) for job in MORE_JOBS)], ids=str
)


@pytest.fixture(scope="module")
def outcomes(
    emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Job], tuple[list[dict[str, str]], str]]:
    """Runs a job once; returns the error of each case in each process, and its output with the emulator's log."""
    known: dict[Job, tuple[list[dict[str, str]], str]] = {}

    def of(job: Job) -> tuple[list[dict[str, str]], str]:
        if job not in known:
            directory = tmp_path_factory.mktemp("job")
            environ = {
                "XLA_SHMEM_GPU_PUTS": job.puts,
                "XLA_SHMEM_GPU_PERMUTE": job.permute,
                "XLA_SHMEM_GPU_REDUCE": job.reduce,
                "GPU_EMULATOR_VERSION": job.driver,
                "GPU_EMULATOR_COMPUTE_CAPABILITY": job.capability,
                "GPU_EMULATOR_NVLS": job.nvls,
                "GPU_EMULATOR_TRACE": "1",
                "GPU_EMULATOR_LOG": str(directory / "log"),
            }
            ended = process_jobs.run_processes(
                emulator,
                "worker_transfers.py",
                job.processes,
                directory,
                str(job.gpus),
                time_limit=200,
                **environ,
            )
            said = "".join(one.output for one in ended)
            known[job] = process_jobs.reports(ended), said + (directory / "log").read_text(errors="replace")
        return known[job]

    return of


@pytest.mark.timeout(300)
@ALL_JOBS
@pytest.mark.parametrize("name", CASES)
def test_result(name: str, job: Job, outcomes: Callable[[Job], tuple[list[dict[str, str]], str]]) -> None:
    reports, _ = outcomes(job)
    assert tuple(reports[0]) == (*CASES, "in_switch")
    failures = [f"process {process}: {report[name]}" for process, report in enumerate(reports) if report[name]]
    assert not failures, "\n".join(failures)


@pytest.mark.timeout(300)
@ALL_JOBS
def test_the_switch_reduces_what_it_can_if_it_is_there_and_asked_for(
    job: Job, outcomes: Callable[[Job], tuple[list[dict[str, str]], str]]
) -> None:
    reports, said = outcomes(job)
    in_switch = job.reduce == "multimem" and job.has_multicast
    expected = sum(int(report["in_switch"]) for report in reports)
    assert (expected > 0) == in_switch
    assert len(_IN_SWITCH.findall(said)) == expected
    told = said.count("process 0 has no multicast memory")
    assert told == (1 if job.reduce == "multimem" and not in_switch else 0)


@pytest.mark.timeout(300)
@ALL_JOBS
def test_small_messages_go_in_packets_and_large_ones_through_slots(
    job: Job, outcomes: Callable[[Job], tuple[list[dict[str, str]], str]]
) -> None:
    _, said = outcomes(job)
    for kernel in ("move", "reduce"):
        assert f"cuLaunchKernel {kernel}_packets <<<" in said
        assert f"cuLaunchKernel {kernel} <<<" in said
