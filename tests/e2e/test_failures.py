"""Failures end in an error with operation, peer and limit; nothing hangs, and nothing is left behind."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import SHM, JobRun, environment, run_job

pytestmark = pytest.mark.timeout(60)


def _fail(way: str, results: Path, ranks: int = 2, deadline: str = "2", devices: int = 1) -> JobRun:
    run = run_job(
        "worker_failures.py",
        [way],
        ranks=ranks,
        devices=devices,
        results=results,
        timeout=40,
        XLA_SHMEM_DEADLINE=deadline,
    )
    assert run.exit_code != 0, run.output
    assert run.segments == []
    return run


def test_rank_that_never_comes_to_a_sum_is_named_after_the_deadline_and_ever_after(tmp_path: Path) -> None:
    facts = _fail("absent_from_a_sum", tmp_path).result(0)
    error = str(facts["error"])
    assert "all-reduce jit" in error
    assert "psum" in error
    assert re.search(r"worker_failures.py:\d+ \(400 bytes, 2 PEs\) on PE 0, run 1;", error)
    assert "not arrived at this operation: PE 1" in error
    assert "gave up after the deadline of 2 s (XLA_SHMEM_DEADLINE)" in error
    assert 2 <= float(str(facts["seconds"])) < 4
    # A failed job stays failed: the next error comes at once.
    assert "not arrived at this operation: PE 1" in str(facts["again"])
    assert float(str(facts["again_seconds"])) < 1


@pytest.mark.slow
def test_two_of_three_ranks_both_name_the_one_that_never_comes(tmp_path: Path) -> None:
    run = _fail("absent_from_a_sum", tmp_path, ranks=3)
    for rank in (0, 1):
        assert "not arrived at this operation: PE 2" in str(run.result(rank)["error"])


def test_rank_that_never_comes_to_a_permute_is_named_after_the_deadline(tmp_path: Path) -> None:
    error = str(_fail("absent_from_a_permute", tmp_path).result(0)["error"])
    assert "collective-permute jit" in error
    assert "PE 1" in error
    assert "deadline of 2 s" in error


def test_rank_killed_in_a_collective_is_named_long_before_the_deadline(tmp_path: Path) -> None:
    run = _fail("killed_in_a_collective", tmp_path, deadline="30")
    assert run.exit_code == 128 + 9
    facts = run.result(0)
    assert "process 1 (PE 1) has exited" in str(facts["error"])
    assert "all-reduce jit" in str(facts["error"])
    assert float(str(facts["seconds"])) < 10


def test_rank_that_ends_with_an_exception_does_not_leave_the_others_hanging(tmp_path: Path) -> None:
    run = _fail("exits_with_an_exception", tmp_path, deadline="inf")
    assert "rank 1 has had enough" in run.output
    assert "process 1 (PE 1) has come to the end of its program" in str(run.result(0)["error"])


def test_the_first_rank_to_end_gives_the_job_its_exit_code(tmp_path: Path) -> None:
    run = _fail("exits_with_code_5", tmp_path, ranks=3, deadline="inf")
    assert run.exit_code == 5
    assert "rank 1 exited with code 5" in run.output
    for rank in (0, 2):
        assert "process 1 (PE 1) has come to the end of its program" in str(run.result(rank)["error"])


def test_a_late_rank_is_waited_for_and_a_line_says_what_it_does(tmp_path: Path) -> None:
    run = run_job(
        "worker_failures.py",
        ["comes_late"],
        ranks=2,
        results=tmp_path,
        timeout=40,
        XLA_SHMEM_DEADLINE="inf",
        _XLA_SHMEM_LATE_AFTER="2",
    )
    assert run.exit_code == 0, run.output
    assert [run.result(rank)["values"] for rank in (0, 1)] == [[2.0] * 10] * 2
    (line,) = [line for line in run.output.splitlines() if "no progress for" in line]
    assert re.search(r"all-reduce jit\S* at \S*worker_failures.py:\d+ \(40 bytes, 2 PEs\) on PE 0, run 1; ", line)
    assert (
        "not arrived at this operation: PE 1; no progress for 2 s; process 1 (PE 1) is running, but in no coll" in line
    )
    assert re.search(r": it runs Python at \S*worker_failures.py:\d+ in comes_late; goes on waiting", line)


@pytest.mark.parametrize("raises", [0, 1])
def test_ranks_that_catch_the_error_work_on_and_end_as_on_stock_jax(tmp_path: Path, raises: int) -> None:
    run = run_job(
        "worker_failures.py",
        ["works_on_after_the_error", str(raises)],
        ranks=3,
        results=tmp_path,
        timeout=40,
        XLA_SHMEM_DEADLINE="1",
    )
    assert run.exit_code == 0, run.output
    assert all("saved" in run.result(rank) for rank in range(3))


def test_what_is_still_under_way_at_the_end_of_a_program_arrives(tmp_path: Path) -> None:
    run = run_job("worker_failures.py", ["ends_with_a_sum_under_way"], ranks=2, results=tmp_path, timeout=40)
    assert run.exit_code == 0, run.output
    assert run.result(0)["values"] == [2.0] * 10


def test_ranks_that_run_different_programs_both_get_an_error(tmp_path: Path) -> None:
    run = _fail("runs_another_shape", tmp_path, deadline="inf")
    for rank in (0, 1):
        error = str(run.result(rank)["error"])
        assert "all-reduce jit" in error
        # The words of the rank that gave up first.
        first = int(re.search(r"on PE (\d), run", error)[1])
        assert f"({400 + 4 * first} bytes, 2 PEs)" in error
        assert f"not arrived at this operation: PE {1 - first}; process {1 - first} (PE {1 - first}) is in " in error
        assert f"({404 - 4 * first} bytes) of another program of that name: its copy differs" in error
        assert float(str(run.result(rank)["seconds"])) < 10


@pytest.mark.parametrize("what", ["shape", "mesh"])
def test_a_rank_with_another_copy_of_the_program_is_found_and_no_rank_gets_data(tmp_path: Path, what: str) -> None:
    run = _fail(f"copy_with_another_{what}", tmp_path, ranks=3)
    (odd,) = {"shape": {2}, "mesh": {0}}[what]
    errors = [str(run.result(rank).get("error", "")) for rank in range(3)]
    assert all(errors), errors
    assert any(f"process {odd} (PE {odd}) is in " in error for error in errors), errors
    for error in errors:
        assert " jit_step/" in error
        assert "of another program of that name: its copy differs" in error


def test_one_program_in_two_threads_is_refused_and_no_rank_gets_data(tmp_path: Path) -> None:
    run = _fail("one_program_in_two_threads", tmp_path, deadline="100")
    assert run.seconds < 80
    for rank in (0, 1):
        assert len(run.results[rank]) == 2
        for facts in run.results[rank]:
            assert "two runs of its program are under way at once on PE 0" in str(facts["error"])
            assert "/psum" in str(facts["error"])
            assert "give each thread a function of its own name" in str(facts["error"])


def test_a_call_that_a_handler_refuses_ends_the_wait_of_the_other_rank(tmp_path: Path) -> None:
    run = _fail("call_that_a_handler_refuses", tmp_path, deadline="inf")
    for rank in (0, 1):
        facts = run.result(rank)
        assert "jit_wrong/call: PE 1 is in none of its replica groups" in str(facts["error"])
        assert float(str(facts["seconds"])) < 10


@pytest.mark.parametrize(("ranks", "devices"), [(2, 1), (1, 2)])
@pytest.mark.parametrize(
    ("way", "words"),
    [
        (
            "sends_rows_that_its_input_does_not_have",
            "input_offsets[1] is 7 and send_sizes[1] is 4, but the operand has 10 rows",
        ),
        (
            "sends_rows_past_the_end_of_an_output",
            "output_offsets[1] is 100 and send_sizes[1] is 4, but the output on PE 1 has 10 rows",
        ),
        ("expects_more_rows_than_it_gets", "recv_sizes[1] is 5, but send_sizes[0] is 4 on PE 1"),
    ],
)
def test_wrong_numbers_of_a_ragged_all_to_all_are_named(
    tmp_path: Path, way: str, words: str, ranks: int, devices: int
) -> None:
    # The other rank may have got all its rows before.
    facts = _fail(way, tmp_path, ranks, "20", devices).result(0)
    assert "ragged-all-to-all jit" in str(facts["error"])
    assert words in str(facts["error"])
    assert float(str(facts["seconds"])) < 10


def test_segments_of_dead_jobs_are_swept_by_the_next(tmp_path: Path) -> None:
    key = secrets.token_hex(16)
    die = f"import os; from xla_shmem import _core; _core.create_segment({key!r}, 0, 8 << 20); os.kill(os.getpid(), 9)"
    dead = subprocess.run([sys.executable, "-c", die], env=environment(tmp_path, {}), check=False, timeout=30)
    assert dead.returncode == -9
    left = SHM / f"xla_shmem.{os.getuid()}.{key}.0"
    run = run_job("worker_flag.py", ["{}"], ranks=1, devices=2, results=tmp_path)
    assert run.exit_code == 0, run.output
    assert not left.exists()
