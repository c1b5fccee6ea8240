"""Faults in jobs of the launcher, with JAX's coordinator in rank 0; `make test-faults` runs them.

test_training_faults.py has more of those that end a job or slow it down.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from fault_runs import named
from job_runs import JobRun, processes_of, run_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

DEADLINE_S = 4
STEPS = 40


def _run(tmp_path: Path, fault: str, seed: int, ranks: int, steps: int = STEPS, **environ: str) -> tuple[JobRun, int]:
    draw = random.Random(f"{fault} {seed}")
    victim = draw.randrange(ranks)
    seconds = draw.uniform(0.0, 0.6)
    run = run_job(
        "worker_faults.py",
        [fault, str(victim), str(seconds), str(steps)],
        ranks=ranks,
        results=tmp_path,
        XLA_SHMEM_OPS="all",
        XLA_SHMEM_DEADLINE=str(DEADLINE_S),
        XLA_SHMEM_RECORDS=str(tmp_path / "records"),
        **environ,
    )
    assert run.segments == [], "left in /dev/shm"
    assert not processes_of(tmp_path), "left running"
    return run, victim


def _all_done(run: JobRun, ranks: int) -> None:
    assert run.exit_code == 0, run.output
    for rank in range(ranks):
        assert run.result(rank) == {"done": STEPS, "jumped": False}


@pytest.mark.parametrize("seed", range(4))
def test_survivors_of_a_killed_rank_name_it_and_end(tmp_path: Path, seed: int) -> None:
    run, victim = _run(tmp_path, "kill", seed, ranks=2 + seed % 2)
    assert run.exit_code not in (0, -9), run.output
    told = f"process {victim} (PE {victim}) has exited" in run.output
    # Rank 0 runs JAX's coordinator. JAX ends a process that loses it, perhaps before the error of xla-shmem.
    assert told or (victim == 0 and "coordination" in run.output), run.output


@pytest.mark.parametrize("seed", range(2))
def test_peers_of_a_stopped_rank_end_at_the_deadline(tmp_path: Path, seed: int) -> None:
    run, victim = _run(tmp_path, "stop", seed, ranks=2 + seed % 2)
    assert run.exit_code not in (0, -9), run.output
    line = run.line_with(f"gave up after the deadline of {DEADLINE_S} s")
    assert f"; process {victim} (PE {victim}) is stopped" in line
    assert named(line) == {victim}


@pytest.mark.parametrize("seed", range(2))
def test_a_forked_child_that_exits_takes_nothing_with_it(tmp_path: Path, seed: int) -> None:
    run, _ = _run(tmp_path, "fork", seed, ranks=3)
    _all_done(run, 3)


@pytest.fixture(scope="module")
def jumping_clock(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library to preload. After a call of `start_jumping` the time of day jumps."""
    library = tmp_path_factory.mktemp("clock") / "libjumping_clock.so"
    source = Path(__file__).parent / "jumping_clock.cc"
    subprocess.run(["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return str(library)


@pytest.mark.parametrize("seed", range(2))
def test_a_clock_that_jumps_by_hours_neither_fails_a_job_nor_changes_a_result(
    tmp_path: Path, seed: int, jumping_clock: str
) -> None:
    run, _ = _run(tmp_path, "clock", seed, ranks=2 + seed, LD_PRELOAD=jumping_clock)
    assert run.exit_code == 0, run.output
    for rank in range(2 + seed):
        result = run.result(rank)
        assert result["done"] == STEPS
        assert result["jumped"], "the time of day did not jump in this process"


def test_a_deadline_is_kept_while_the_clock_jumps(tmp_path: Path, jumping_clock: str) -> None:
    run, _ = _run(tmp_path, "stop-clock", 0, ranks=2, LD_PRELOAD=jumping_clock)
    assert run.exit_code not in (0, -9), run.output
    run.line_with(f"gave up after the deadline of {DEADLINE_S} s")
    assert run.seconds < 60, run.output
