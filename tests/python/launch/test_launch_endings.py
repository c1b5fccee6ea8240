"""Ends of jobs of `xla-shmem launch`: failures, signals, processes and memory left."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path

import pytest
from launched_jobs import STAY, alive, children, launch, launched, pids_in, wait_for

from xla_shmem.launch.first_end import FirstEnd, tell_launcher
from xla_shmem.launch.segments import SHM_DIRECTORY


def test_first_failure_stops_the_others_and_its_code_is_passed_on() -> None:
    begin = time.monotonic()
    result = launch(
        3,
        "import os, sys, time\nif os.environ['XLA_SHMEM_LOCAL_RANK'] == '1': sys.exit(7)\ntime.sleep(60)",
    )
    assert result.returncode == 7
    assert result.stderr == "xla-shmem launch: rank 1 exited with code 7; stopping the others.\n"
    assert time.monotonic() - begin < 5


# Rank 1 comes to its end first and then takes its time, as in JAX's barrier; rank 0 fails because of it.
_ENDS = """
import os, sys, time
from xla_shmem.launch.first_end import tell_launcher
if os.environ['XLA_SHMEM_LOCAL_RANK'] == '1':
    tell_launcher(os.environ)
    time.sleep(float(os.environ["SECONDS"]))
    sys.exit(int(os.environ["CODE"]))
time.sleep(0.4)
tell_launcher(os.environ)
sys.exit(1)
"""


@pytest.mark.parametrize(
    ("seconds", "code", "expected", "says"),
    [
        ("0.8", "5", 5, "rank 1 exited with code 5, before rank 0."),
        ("0.8", "0", 1, "rank 0 exited with code 1."),
        ("60", "5", 1, "rank 0 exited with code 1; stopping the others."),
    ],
)
def test_the_rank_that_comes_to_its_end_first_gives_the_code(seconds: str, code: str, expected: int, says: str) -> None:
    begin = time.monotonic()
    result = launch(2, _ENDS, SECONDS=seconds, CODE=code)
    assert result.returncode == expected
    assert result.stderr == f"xla-shmem launch: {says}\n"
    assert time.monotonic() - begin < 10


def test_an_end_is_told_only_to_a_pipe_of_the_launcher(tmp_path: Path) -> None:
    with contextlib.closing(FirstEnd()) as ends:
        for rank in (3, 0):
            tell_launcher({**ends.environment(), "XLA_SHMEM_LOCAL_RANK": str(rank)})
        assert ends.order() == [3, 0]
        tell_launcher({"XLA_SHMEM_LOCAL_RANK": "1"})
        tell_launcher({**ends.environment(), "XLA_SHMEM_LOCAL_RANK": "x"})
        descriptor = ends.environment()["XLA_SHMEM_ENDS_PIPE"].partition(":")[0]
        tell_launcher({"XLA_SHMEM_ENDS_PIPE": f"{descriptor}:1", "XLA_SHMEM_LOCAL_RANK": "1"})
        assert ends.order() == [3, 0]
    other = (tmp_path / "file").open("wb")  # takes the number of a descriptor that has been closed
    inode = os.fstat(other.fileno()).st_ino
    tell_launcher({"XLA_SHMEM_ENDS_PIPE": f"{other.fileno()}:{inode}", "XLA_SHMEM_LOCAL_RANK": "1"})
    other.close()
    assert (tmp_path / "file").read_bytes() == b""


def test_signal_that_kills_a_rank_becomes_128_plus_its_number() -> None:
    result = launch(
        2,
        "import os, time\nif os.environ['XLA_SHMEM_LOCAL_RANK'] == '0': os.kill(os.getpid(), 9)\ntime.sleep(60)",
    )
    assert result.returncode == 128 + 9
    assert "rank 0 was killed by SIGKILL; stopping the others." in result.stderr


def test_rank_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    program = "import signal, os, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STAY
    with launched(2, program, str(tmp_path), grace=0.3) as launcher:
        pids = pids_in(tmp_path, 2)
        os.kill(pids[0], signal.SIGKILL)
        _, stderr = launcher.communicate(timeout=10)
    assert launcher.returncode == 128 + 9
    assert "did not stop in time; sending SIGKILL" in stderr
    assert not any(alive(pid) for pid in pids)


def test_ranks_that_wait_for_a_failed_one_get_no_long_grace(tmp_path: Path) -> None:
    program = "import signal, os, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STAY
    with launched(2, program, str(tmp_path), grace=60) as launcher:
        os.kill(pids_in(tmp_path, 2)[0], signal.SIGKILL)
        launcher.communicate(timeout=20)
    assert launcher.returncode == 128 + 9


def test_grandchildren_die_with_a_failed_job(tmp_path: Path) -> None:
    program = (
        f"import subprocess, sys, time, os\nsubprocess.Popen([sys.executable, '-c', {STAY!r}, sys.argv[1]])\n" + STAY
    )
    with launched(2, program, str(tmp_path)) as launcher:
        pids = pids_in(tmp_path, 4)
        os.kill(int(children(launcher.pid)[0]), signal.SIGKILL)
        launcher.communicate(timeout=10)
    assert launcher.returncode == 128 + 9
    assert wait_for(lambda: not any(alive(pid) for pid in pids), 2)


def test_background_child_of_a_finished_rank_does_not_keep_the_job_waiting(tmp_path: Path) -> None:
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STAY!r}, sys.argv[1]])"
    with launched(1, program, str(tmp_path)) as launcher:
        assert launcher.wait(timeout=10) == 0
    assert wait_for(lambda: not any(alive(int(file.name)) for file in tmp_path.iterdir()), 2)


def test_ctrl_c_is_forwarded_and_leaves_no_trace(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "try:\n"
        "    open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    with launched(2, program, str(tmp_path)) as launcher:
        pids = pids_in(tmp_path, 2)
        launcher.send_signal(signal.SIGINT)
        stdout, stderr = launcher.communicate(timeout=10)
    assert launcher.returncode == 130
    assert sorted(stdout.splitlines()) == ["[0] interrupted", "[1] interrupted"]
    assert stderr == "xla-shmem launch: SIGINT; stopping the ranks.\n"
    assert not any(alive(pid) for pid in pids)


def test_second_ctrl_c_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + STAY
    with launched(1, program, str(tmp_path), grace=30) as launcher:
        pids_in(tmp_path, 1)
        launcher.send_signal(signal.SIGINT)
        assert launcher.stderr is not None
        launcher.stderr.readline()
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=10)
    assert launcher.returncode == 130


def test_sigterm_of_the_launcher_ends_the_job(tmp_path: Path) -> None:
    with launched(2, STAY, str(tmp_path)) as launcher:
        pids = pids_in(tmp_path, 2)
        launcher.terminate()
        launcher.communicate(timeout=10)
    assert launcher.returncode == 143
    assert not any(alive(pid) for pid in pids)


_SEGMENT = (
    "import os, sys, time\n"
    "job, rank = os.environ['XLA_SHMEM_JOB'], os.environ['XLA_SHMEM_LOCAL_RANK']\n"
    "name = f'/dev/shm/xla_shmem.{os.getuid()}.{job[:16]}0123456789abcdef.{rank}'\n"
    "open(name, 'w').close(); print(name, flush=True)\n"
)


def _segments_named_in(output: str) -> list[Path]:
    found = [Path(line.split(" ")[-1]) for line in output.splitlines()]
    assert found
    assert all(path.parent == SHM_DIRECTORY for path in found)
    return found


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "os.kill(os.getpid(), 9)"])
def test_shared_memory_is_unlinked_however_the_ranks_end(end: str) -> None:
    result = launch(2, _SEGMENT + end)
    segments = _segments_named_in(result.stdout)
    assert not any(path.exists() for path in segments)


def test_shared_memory_of_other_jobs_is_left_alone() -> None:
    other = SHM_DIRECTORY / f"xla_shmem.{os.getuid()}.{secrets.token_hex(16)}.0"
    other.touch()
    try:
        launch(1, _SEGMENT)
        assert other.exists()
    finally:
        other.unlink()


def test_killed_launcher_leaves_neither_processes_nor_shared_memory(tmp_path: Path) -> None:
    program = _SEGMENT + f"import subprocess; subprocess.Popen([sys.executable, '-c', {STAY!r}, sys.argv[1]])\n" + STAY
    with launched(2, program, str(tmp_path)) as launcher:
        pids = pids_in(tmp_path, 4)
        assert launcher.stdout is not None
        segments = _segments_named_in(launcher.stdout.readline() + launcher.stdout.readline())
        assert all(path.exists() for path in segments)
        launcher.kill()
        assert wait_for(lambda: not any(alive(pid) for pid in pids), 5)
        assert wait_for(lambda: not any(path.exists() for path in segments), 5)
