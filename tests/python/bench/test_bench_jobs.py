"""Commands and answers between the coordinator and fake ranks."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from xla_shmem.bench import jobs
from xla_shmem.bench.plan import Plan


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[jobs.Job]:
    monkeypatch.setattr(jobs, "GRACE", 0.1)
    command = ["/bin/sh", "-c", "echo the job said this; exec sleep 60"]
    with jobs.Job("shmem", command, dict(os.environ), 2, tmp_path) as started:
        yield started


@pytest.fixture
def ranks(job: jobs.Job) -> Iterator[list[Connection]]:
    ends = []
    for rank in (1, 0):  # in whatever order they come
        ours, theirs = Pipe()
        job.add(rank, ours)
        ends.insert(0, theirs)
    yield ends
    for end in ends:
        end.close()


def test_answers_are_in_the_order_of_the_ranks(job: jobs.Job, ranks: list[Connection]) -> None:
    def answer() -> None:
        ranks[1].send({"rank": 1})
        assert ranks[0].recv() == {"do": "check", "variant": "stock"}
        ranks[0].send({"rank": 0})

    thread = threading.Thread(target=answer)
    thread.start()
    assert job.ask("check", variant="stock") == [{"rank": 0}, {"rank": 1}]
    thread.join()


def test_a_rank_that_does_not_answer_is_named(
    job: jobs.Job, ranks: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ANSWER_WITHIN", 0.2)
    ranks[0].send({})
    with pytest.raises(jobs.JobFailed, match=r"(?s)did not answer 'time' for 0 s \(ranks \[1\]\).*the job said this"):
        job.ask("time")


def test_a_rank_that_has_ended_is_named(job: jobs.Job, ranks: list[Connection]) -> None:
    ranks[1].close()
    with pytest.raises(jobs.JobFailed, match=r"(?s)lost rank 1.*the job said this"):
        job.ask("time")


def test_the_output_of_a_job_that_ends_early_is_quoted(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo cannot find it; exit 3"]
    words = r"(?s)the mpi job ended with exit code 3\..*cannot find it"
    with jobs.Job("mpi", command, dict(os.environ), 2, tmp_path) as job, pytest.raises(jobs.JobFailed, match=words):
        _watch(job)


def test_the_cause_of_the_end_is_quoted_even_if_other_ranks_print_much_after_it(tmp_path: Path) -> None:
    command = [*jobs.LAUNCHER, "-n", "2", "--", sys.executable, "-c", _DIES_WITH_THE_OTHER, str(tmp_path / "ready")]
    with jobs.Job("shmem", command, dict(os.environ), 2, tmp_path) as job, pytest.raises(jobs.JobFailed) as failed:
        _watch(job)
    quoted = str(failed.value).splitlines()
    assert quoted[1] == "  xla-shmem launch: rank 0 was killed by SIGKILL; stopping the others."
    assert quoted[-1].endswith("trace 99")
    assert not any(line.endswith("trace 1") for line in quoted)


# Rank 1 prints a long trace at SIGTERM.
_DIES_WITH_THE_OTHER = """
import os, pathlib, signal, sys, time
def trace(*_):
    print(*(f"trace {i}" for i in range(100)), sep="\\n", flush=True)
    sys.exit(1)
ready = pathlib.Path(sys.argv[1])
if os.environ["XLA_SHMEM_LOCAL_RANK"] == "1":
    signal.signal(signal.SIGTERM, trace)
    ready.touch()
    time.sleep(60)
while not ready.exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _watch(job: jobs.Job) -> None:
    for _ in range(1000):
        job.check_alive()
        time.sleep(0.01)


def test_ranks_get_the_command_to_end_unless_there_was_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GRACE", 0.1)
    heard = []
    for error in (None, RuntimeError("no")):
        ours, theirs = Pipe()
        try:
            with jobs.Job("mpi", ["sleep", "60"], dict(os.environ), 1, tmp_path) as job:
                job.add(0, ours)
                if error is not None:
                    raise error
        except RuntimeError:
            pass
        heard.append(theirs.recv() if theirs.poll(5) and error is None else None)
        if error is not None:
            with pytest.raises(EOFError):
                theirs.recv()
        theirs.close()
    assert heard == [{"do": "end"}, None]


def test_ranks_of_another_job_size_are_refused(job: jobs.Job) -> None:
    ours, _ = Pipe()
    with pytest.raises(jobs.JobFailed, match="has 3 ranks, and --num-ranks is 2"):
        job.add(0, ours, host="host0", ranks=3)


def test_ranks_are_counted_by_host(job: jobs.Job) -> None:
    for rank, host in ((1, "b"), (0, "a")):
        job.add(rank, Pipe()[0], host=host, ranks=2)
    assert job.ranks_of_hosts() == {"a": 1, "b": 1}


def test_other_launchers_get_the_variables_of_the_ranks_as_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_experimental_enable_nvshmem=true")
    plan = Plan(processes=8, devices_per_process=2, launcher="srun -N 2 --label")
    start = jobs.launched(plan, {**os.environ, "XLA_SHMEM_OPS": "all"}, flag=False)
    assert start.prefix[:4] == ["srun", "-N", "2", "--label"]
    changed = start.prefix[5:]
    assert start.prefix[4] == "env"
    assert "XLA_SHMEM_OPS=all" in changed
    assert "JAX_NUM_CPU_DEVICES=2" in changed
    assert any(one == "--unset=XLA_FLAGS" or one.startswith("XLA_FLAGS=") for one in changed)
    assert not any(one.startswith("PATH=") for one in changed)
    assert start.ranks == 8
