"""Peers that do not come, are killed or are stopped, and wrong arguments: the watchdog names them, and the job ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator
from job_runs import JobRun

pytestmark = pytest.mark.timeout(240)

DEADLINE_S = 3

# The worker gives up by itself long before this limit, so a job that reaches it hung.
LIMIT_S = 120


def _fail(
    emulator: Emulator,
    way: str,
    results: Path,
    ranks: int = 2,
    devices: int = 1,
    flags: Sequence[str] = NO_GRAPH_FLAGS,
    deadline: float = DEADLINE_S,
    **environ: str,
) -> JobRun:
    job = run_emulated(
        emulator,
        "../e2e/worker_failures.py",
        [way],
        ranks=ranks,
        devices=devices,
        results=results,
        flags=flags,
        timeout=LIMIT_S,
        grace=60,  # the survivors get their error first
        XLA_SHMEM_DEADLINE=str(deadline),
        **environ,
    )
    assert "stopped after" not in job.output, f"the job hung:\n{job.output[-6000:]}"
    assert job.exit_code != 0
    assert job.segments == []
    return job


@pytest.mark.parametrize(
    ("way", "op"),
    [
        ("absent_from_a_permute", "collective-permute"),
        pytest.param("absent_from_a_sum", "all-reduce", marks=pytest.mark.slow),
        ("killed_in_a_collective", "all-reduce"),
        ("stopped_in_a_collective", "all-reduce"),
    ],
)
def test_the_message_names_the_operation_and_the_peer(emulator: Emulator, tmp_path: Path, way: str, op: str) -> None:
    job = _fail(emulator, way, tmp_path)
    message = job.line_with("has not finished")
    assert message.startswith("[0] xla_shmem: jit_")
    assert op in message
    assert "on PE 0" in message
    assert "PE 1" in message
    assert job.result(0)["error"], "JAX has not reported the failure"
    assert float(str(job.result(0)["seconds"])) >= DEADLINE_S


@pytest.mark.slow
def test_both_others_name_the_third_that_does_not_come(emulator: Emulator, tmp_path: Path) -> None:
    job = _fail(emulator, "absent_from_a_sum", tmp_path, ranks=3)
    for rank in (0, 1):
        lines = [line for line in job.output.splitlines() if line.startswith(f"[{rank}] xla_shmem:")]
        assert any("PE 2" in line for line in lines), f"rank {rank} does not name PE 2:\n{job.output[-6000:]}"


def test_all_gpus_of_a_process_end_when_another_process_is_killed(emulator: Emulator, tmp_path: Path) -> None:
    job = _fail(emulator, "killed_in_a_collective", tmp_path, devices=2, deadline=60)
    message = job.line_with("has not finished")
    assert "all-reduce" in message
    assert "process 1" in message
    result = job.result(0)
    assert result["error"]
    assert float(str(result["seconds"])) < 50, "the deadline ended the job, not the watchdog"


def test_a_graph_that_waits_ends_with_the_names_of_its_operations(emulator: Emulator, tmp_path: Path) -> None:
    job = _fail(emulator, "stopped_in_a_collective", tmp_path, flags=GRAPH_FLAGS)
    message = job.line_with("gave up after the deadline")
    assert "all-reduce" in message
    assert job.result(0)["error"]


@pytest.mark.parametrize("flags", [NO_GRAPH_FLAGS, pytest.param(GRAPH_FLAGS, marks=pytest.mark.slow)])
def test_rows_that_do_not_exist_are_named_and_not_sent(
    emulator: Emulator, tmp_path: Path, flags: Sequence[str]
) -> None:
    way = "sends_rows_that_its_input_does_not_have"
    job = _fail(emulator, way, tmp_path, flags=flags, XLA_SHMEM_OPS="all")
    message = job.line_with("are not all in the input")
    assert message.startswith("[0] xla_shmem: jit_send/ragged-all-to-all")
    assert "on PE 0: the rows for PE 1 are not all in the input (input_offsets, send_sizes)" in message
    assert job.result(0)["error"], "JAX has not reported the failure"


@pytest.mark.parametrize(
    ("way", "flags"),
    [
        ("copy_with_another_constant", NO_GRAPH_FLAGS),
        pytest.param("copy_with_another_constant", GRAPH_FLAGS, marks=pytest.mark.slow),
        pytest.param("overlaps_with_another_constant", NO_GRAPH_FLAGS, marks=pytest.mark.slow),
        pytest.param("programs_in_another_order", NO_GRAPH_FLAGS, marks=pytest.mark.slow),
        pytest.param("programs_in_another_order", GRAPH_FLAGS, marks=pytest.mark.slow),
        pytest.param("copy_with_another_mesh", NO_GRAPH_FLAGS, marks=pytest.mark.slow),
    ],
)
def test_a_process_at_another_program_is_named_at_once_and_gets_no_data(
    emulator: Emulator, tmp_path: Path, way: str, flags: Sequence[str]
) -> None:
    limit = 60.0
    job = _fail(emulator, way, tmp_path, flags=flags, deadline=limit, XLA_SHMEM_OPS="all")
    for rank in (0, 1):
        result = job.result(rank)
        assert result["error"], f"rank {rank} got a result: {result}"
        assert float(str(result["seconds"])) < limit / 2
        lines = [line for line in job.output.splitlines() if line.startswith(f"[{rank}] xla_shmem: jit_")]
        words = f"on PE {rank}: PE {1 - rank} sent a message of "
        assert any(words in line for line in lines), f"rank {rank} does not say it:\n{job.output[-6000:]}"
    assert "the processes run different programs, or start them in another order" in job.output
