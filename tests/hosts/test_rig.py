"""The hosts of a job: they exist as long as the job, in whatever way it ends, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_on_hosts import hosts_command

pytestmark = pytest.mark.timeout(60)

SLEEP = ["sleep", "300"]


def _machine() -> tuple[str, str]:
    """The network interfaces and the mounts of this process."""
    links = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True).stdout
    return links, Path("/proc/self/mounts").read_text()


@contextlib.contextmanager
def _job(folder: Path, program: list[str], limit: float = 50) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A job on two hosts; yields its command and the process ids of all processes in namespaces of the hosts."""
    status, before = folder / "hosts.status", _machine()
    start = hosts_command([2, 1], rate="1gbit", status=status, limit=limit, grace=1)
    job = subprocess.Popen([*start, *program], start_new_session=True)
    try:
        while not status.exists():
            assert job.poll() is None, "the job ended before its hosts existed"
            time.sleep(0.02)
        first = [host["pid"] for host in json.loads(status.read_text())]
        # Three processes hold a host. A rank has its program and nsenter, which waits for it.
        while len(inside := _inside(first)) < 2 * 3 + 3 * 2:
            assert job.poll() is None, f"the job ended with these processes in its hosts: {inside}"
            time.sleep(0.02)
        yield job, inside
        assert _machine() == before
    finally:
        job.kill()
        job.wait()


def _inside(first: list[int]) -> list[int]:
    networks = {os.readlink(f"/proc/{pid}/ns/net") for pid in first}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "ns" / "net") in networks:
                found.append(int(process.name))
    return found


def _wait_until_gone(pids: list[int], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end, f"{left} still exist after {seconds} s"
        time.sleep(0.02)


def test_ctrl_c_ends_the_job_and_its_hosts(tmp_path: Path) -> None:
    with _job(tmp_path, SLEEP) as (job, inside):
        os.killpg(job.pid, signal.SIGINT)
        assert job.wait(20) == 128 + signal.SIGINT
        _wait_until_gone(inside)


def test_hosts_end_with_a_command_that_was_killed(tmp_path: Path) -> None:
    with _job(tmp_path, SLEEP) as (job, inside):
        job.kill()
        _wait_until_gone(inside)


def test_hosts_end_with_the_process_that_started_the_command(tmp_path: Path) -> None:
    with _job(tmp_path, SLEEP) as (_, inside):
        ranks = hosts_command([1, 1], status=tmp_path / "inner.status", limit=50)
        starter = subprocess.Popen(["sh", "-c", '"$@" & wait', "sh", *ranks, *SLEEP])
        while not (tmp_path / "inner.status").exists():
            time.sleep(0.02)
        inner = _inside([host["pid"] for host in json.loads((tmp_path / "inner.status").read_text())])
        assert inner
        starter.kill()
        starter.wait()
        _wait_until_gone(inner)
        assert all(Path(f"/proc/{pid}").exists() for pid in inside), "hosts of another job are gone"


def test_a_job_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with _job(tmp_path, SLEEP, limit=5) as (job, inside):
        assert job.wait(20) == 128 + signal.SIGTERM
        _wait_until_gone(inside)


def test_a_rank_that_fails_ends_the_ranks_of_other_hosts(tmp_path: Path) -> None:
    fail = ["sh", "-c", "test $OMPI_COMM_WORLD_RANK = 2 || exec sleep 300; sleep 2; exit 7"]
    with _job(tmp_path, fail) as (job, inside):
        assert job.wait(20) == 7
        _wait_until_gone(inside)


def test_hosts_see_only_their_own_memory_processes_and_name_and_reach_each_other(tmp_path: Path) -> None:
    tell = (
        "import os, socket; from pathlib import Path; rank = os.environ['OMPI_COMM_WORLD_RANK'];"
        "Path('/dev/shm', rank).touch();"
        "server = socket.create_server((socket.gethostname(), 4711)) if rank == '0' else None;"
        "print('told', rank, socket.gethostname(), sorted(os.listdir('/dev/shm')),"
        " max(map(int, filter(str.isdigit, os.listdir('/proc')))) < 30, socket.gethostbyname('host0'), flush=True)"
    )
    command = [*hosts_command([1, 1], limit=30), "python3", "-c", tell]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == 0, run.stderr
    told = sorted(line.partition("told ")[2] for line in run.stdout.splitlines())
    assert told == ["0 host0 ['0'] True 10.77.0.1", "1 host1 ['1'] True 10.77.0.1"]


def test_a_rate_that_tc_does_not_know_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    before = _machine()
    command = [*hosts_command([1, 1], rate="fast", limit=30), "true"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == 2
    assert "rate" in run.stderr
    assert _machine() == before
