"""Where flight records lie, and reading what is not one. What the runtime writes is read in tests/e2e."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xla_shmem.flight_records import KEPT, RecordError, job_directories, make_job_directory, read_job, records_root


def test_off_has_no_place_and_auto_one_for_each_user() -> None:
    assert records_root("off") is None
    assert make_job_directory("off", "a") == ""
    root = records_root("auto")
    assert root is not None
    assert root.name == f"xla-shmem-{os.getuid()}"


def test_directories_belong_to_this_user_alone(tmp_path: Path) -> None:
    made = Path(make_job_directory(str(tmp_path / "records"), "a" * 32))
    assert made == tmp_path / "records" / ("a" * 32)
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.parent.stat().st_mode & 0o777 == 0o700
    assert make_job_directory(str(tmp_path / "records"), "a" * 32) == str(made)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "job").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match=f"{tmp_path / 'job'} is not a directory of user"):
        make_job_directory(str(tmp_path), "job")


def test_only_the_newest_ended_jobs_are_kept(tmp_path: Path) -> None:
    for age in range(KEPT + 3):
        directory = tmp_path / f"job{age}"
        directory.mkdir()
        # Not a record: left alone, whatever it is.
        (directory / "0.ring").write_bytes(b"something else")
        os.utime(directory, (1000 - age, 1000 - age))
    make_job_directory(str(tmp_path), "own")
    assert len(job_directories(str(tmp_path))) == KEPT + 4


@pytest.mark.parametrize("content", [b"", b"XSHMFR1\n", b"\0" * 8192])
def test_what_is_no_record_is_said_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0.ring").write_bytes(content)
    (tmp_path / "0.sites").write_text("")
    with pytest.raises(RecordError, match=str(tmp_path / "0.ring")):
        read_job(tmp_path)


def test_an_empty_directory_holds_no_records(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no flight records"):
        read_job(tmp_path)
