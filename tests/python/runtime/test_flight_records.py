"""Directories of flight records, and files that are not records. tests/e2e reads records of the runtime."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from pathlib import Path

import pytest

from xla_shmem.runtime.flight_records import (
    KEPT,
    RecordError,
    job_directories,
    make_job_directory,
    read_job,
    records_root,
)


def test_off_has_no_directory_and_auto_one_for_each_user() -> None:
    assert records_root("off") is None
    assert make_job_directory("off", "a") == ""
    root = records_root("auto")
    assert root is not None
    assert root.name == f"xla-shmem-{os.getuid()}"


def test_directories_belong_to_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)  # so that the modes are those that the function asks for
    try:
        made = Path(make_job_directory(str(tmp_path / "records"), "a" * 32))
    finally:
        os.umask(before)
    assert made == tmp_path / "records" / ("a" * 32)
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert make_job_directory(str(tmp_path / "records"), "a" * 32) == str(made)


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "job").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match=f"{tmp_path / 'job'} is not a directory of user"):
        make_job_directory(str(tmp_path), "job")


def _leave_record(directory: Path, pid: int, age: int) -> Path:
    """Writes the record of a process that has run no collective."""
    directory.mkdir()
    ring = directory / "0.ring"
    ring.write_bytes(struct.pack("<8s4IqI", b"XSHMFR1\n", pid, 0, 1, 0, 0, 0).ljust(4096, b"\0"))
    (directory / "0.sites").write_text("")
    os.utime(directory, (10_000 - age, 10_000 - age))
    return ring


def test_only_the_newest_ended_jobs_are_kept(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for age in range(KEPT + 3):
        _leave_record(tmp_path / f"job{age}", ended.pid, age)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "0.ring").write_bytes(b"no record: not ours to remove")
    os.utime(foreign, (0, 0))
    make_job_directory(str(tmp_path), "own")
    kept = {path.name for path in job_directories(str(tmp_path))}
    assert kept == {"own", "foreign", *(f"job{age}" for age in range(KEPT))}


def test_the_records_of_a_job_that_runs_are_kept_however_old(tmp_path: Path) -> None:
    ring = _leave_record(tmp_path / "running", os.getpid(), KEPT + 5)
    for age in range(KEPT + 1):
        _leave_record(tmp_path / f"job{age}", 2**22 + 1, age)
    with ring.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        make_job_directory(str(tmp_path), "own")
    assert ring.exists()
    assert not (tmp_path / f"job{KEPT}").exists()


@pytest.mark.parametrize("content", [b"", b"XSHMFR1\n", b"\0" * 8192])
def test_a_file_that_is_not_a_record_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0.ring").write_bytes(content)
    (tmp_path / "0.sites").write_text("")
    with pytest.raises(RecordError, match=str(tmp_path / "0.ring")):
        read_job(tmp_path)


def test_an_empty_directory_holds_no_records(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no flight records"):
        read_job(tmp_path)
