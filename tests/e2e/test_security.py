"""What docs/sharp-bits.md promises: another user can neither read a job nor stop it."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from job_runs import SHM, JobRun, environment, run_job

NOBODY = 65534
SUM = [4, 6, 8, 10]

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")


def as_nobody(attacks: Callable[[], list[str]]) -> list[str]:
    """Runs `attacks` in a process of another user and returns what succeeded."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = attacks()
        except BaseException as error:
            answer = [repr(error)]
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        text = answers.read()
    os.waitpid(child, 0)
    return list(json.loads(text))


def succeeded(what: str, attack: Callable[[], object]) -> Iterator[str]:
    try:
        attack()
    except OSError:
        return
    yield what


def on_file(path: Path) -> Iterator[str]:
    yield from succeeded(f"reads {path}", lambda: path.open("rb").close())
    yield from succeeded(f"writes {path}", lambda: path.open("ab").close())
    yield from succeeded(f"renames {path}", lambda: path.rename(path.with_name(path.name + ".taken")))
    yield from succeeded(f"removes {path}", path.unlink)


def on_process(pid: int) -> Iterator[str]:
    def trace() -> None:
        attach = 16
        if ctypes.CDLL(None, use_errno=True).ptrace(attach, pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    for number in (signal.SIGSTOP, signal.SIGTERM):
        yield from succeeded(f"sends {number.name}", lambda number=number: os.kill(pid, number))
    for name in ("mem", "maps", "environ"):
        yield from succeeded(f"opens {name}", lambda name=name: Path(f"/proc/{pid}/{name}").open("rb").close())
    for name in ("fd", "map_files"):
        yield from succeeded(f"lists {name}", lambda name=name: os.listdir(f"/proc/{pid}/{name}"))
    yield from succeeded("traces", trace)


@pytest.fixture
def place() -> Iterator[Path]:
    """A temporary folder as /tmp is: all may write, each may remove only what is theirs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o1777)
        yield Path(folder)


class WaitingJob:
    """A job of two ranks that waits between two sums until `end`."""

    def __init__(self, place: Path, results: Path) -> None:
        self._place = place
        self._run: list[JobRun] = []
        environ = {"TMPDIR": str(place), "XLA_SHMEM_TRACE": str(place / "trace.json"), "XLA_SHMEM_RECORDS": "auto"}
        self._thread = threading.Thread(
            target=lambda: self._run.append(
                run_job("worker_security.py", [str(place)], ranks=2, results=results, **environ)
            )
        )
        self._thread.start()
        files = [place / f"{rank}.pid" for rank in (0, 1)]
        limit = time.monotonic() + 120
        while not all(file.exists() and file.read_text() for file in files):
            assert self._thread.is_alive(), self._run
            assert time.monotonic() < limit
            time.sleep(0.02)
        self.pids = [int(file.read_text()) for file in files]

    def end(self) -> JobRun:
        (self._place / "go").touch()
        self._thread.join()
        return self._run[0]


def test_another_user_cannot_read_or_stop_a_running_job(place: Path, tmp_path: Path) -> None:
    job = WaitingJob(place, tmp_path)
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".pid"]
    kinds = {path.suffix for path in files}

    def attacks() -> list[str]:
        found = [text for path in files for text in on_file(path)]
        return found + [text for pid in job.pids for text in on_process(pid)]

    try:
        reached = as_nobody(attacks)
    finally:
        run = job.end()
    assert reached == []
    assert {".ring", ".json"} <= kinds  # records and the trace were there
    assert run.exit_code == 0, run.output
    assert [run.result(rank)["sum"] for rank in (0, 1)] == [SUM, SUM]


def test_another_user_cannot_touch_a_segment() -> None:
    key = secrets.token_hex(16)
    make = f"from xla_shmem import _core; _core.create_segment({key!r}, 0, 8 << 20); print('made', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", make],
        env=environment(SHM, {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "made\n"
        (segment,) = SHM.glob(f"*{key}*")
        assert as_nobody(lambda: list(on_file(segment))) == []
        owner.communicate("\n")
    assert owner.returncode == 0


def test_no_name_of_a_segment_is_known_before_it_exists(place: Path, tmp_path: Path) -> None:
    """Another user takes every name that follows from the key that the job's processes share."""
    key = secrets.token_hex(16)
    taken = [SHM / f"xla_shmem.{os.getuid()}.{key}.{process}" for process in (0, 1)]
    as_nobody(lambda: [str(path.touch(0o600)) for path in taken])
    (place / "go").touch()
    try:
        run = run_job("worker_security.py", [str(place)], ranks=2, results=tmp_path, XLA_SHMEM_JOB=key)
        assert all(path.owner() == "nobody" for path in taken)
    finally:
        for path in taken:
            path.unlink()
    assert run.exit_code == 0, run.output
    assert [run.result(rank)["sum"] for rank in (0, 1)] == [SUM, SUM]
    assert "stay on the default backend" not in run.output


@pytest.mark.parametrize("what", ["folder", "link"])
def test_a_folder_of_another_user_is_not_used_for_records(place: Path, tmp_path: Path, what: str) -> None:
    root = place / f"xla-shmem-{os.getuid()}"
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    as_nobody(lambda: [str(root.mkdir() if what == "folder" else root.symlink_to(elsewhere))])
    (place / "go").touch()
    run = run_job("worker_security.py", [str(place)], ranks=2, results=tmp_path, TMPDIR=str(place))
    assert run.exit_code == 0, run.output
    assert [run.result(rank)["sum"] for rank in (0, 1)] == [SUM, SUM]
    assert f"no flight recorder: {root} is not a directory of user {os.getuid()}" in run.output
    assert list(elsewhere.iterdir()) == []
