"""The host threads of a process's GPUs wait for one another around the first run of a collective, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator
from job_runs import JobRun

pytestmark = pytest.mark.timeout(240)


def _late(emulator: Emulator, results: Path, seconds: float, **environ: str) -> JobRun:
    return run_emulated(
        emulator,
        "worker_late_thread.py",
        [str(seconds)],
        ranks=1,
        devices=2,
        results=results,
        flags=NO_GRAPH_FLAGS,
        timeout=200,
        **environ,
    )


@pytest.mark.slow
def test_a_late_thread_gets_a_line_and_the_others_wait_for_it(emulator: Emulator, tmp_path: Path) -> None:
    job = _late(emulator, tmp_path, 13)
    assert job.exit_code == 0, job.output[-6000:]
    assert job.result(0)["values"] == [[3.0, 5.0, 7.0]]
    line = job.line_with("has not begun: it waits for the thread of PE 1 of this process since 10 s")
    assert "jit_" in line
    assert "all-reduce" in line
    assert "on PE 0" in line
    assert line.endswith("goes on waiting (XLA_SHMEM_DEADLINE)")
    assert job.output.count("it waits for the thread of PE") == 1


def test_a_thread_that_does_not_come_before_the_deadline_fails_the_job(emulator: Emulator, tmp_path: Path) -> None:
    job = _late(emulator, tmp_path, 25, XLA_SHMEM_DEADLINE="2")
    assert job.exit_code != 0
    line = job.line_with("has not begun: it waits for the thread of PE 1 of this process")
    assert "; gave up after the deadline (XLA_SHMEM_DEADLINE)" in line
    assert "stopped after" not in job.output, job.output[-6000:]
