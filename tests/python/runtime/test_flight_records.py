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
    ring.write_bytes(struct.pack("<8s4IQ2IQ", b"XSHMFR5\n", pid, 0, 1, 0, 0, 0, 0, 0).ljust(4096, b"\0"))
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


@pytest.mark.parametrize("content", [b"", b"XSHMFR1\n".ljust(8192, b"\0"), b"\0" * 8192])
def test_a_file_that_is_not_a_record_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0.ring").write_bytes(content)
    with pytest.raises(RecordError, match=str(tmp_path / "0.ring")):
        read_job(tmp_path)


def test_an_empty_directory_holds_no_records(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no flight records"):
        read_job(tmp_path)


def _site(
    number: int,
    name: bytes,
    groups: list[list[int]],
    traits: int,
    record_bytes: int = 0,
    source: bytes = b"",
    form: int = 0,
) -> bytes:
    """A record of a loaded all-reduce, as flight_recorder.cc writes it."""
    numbers = [len(group) for group in groups] + [pe for group in groups for pe in group]
    behind = b"all-reduce" + name + source + b"f32[4]" + struct.pack(f"<{len(numbers)}I", *numbers)
    behind += b"\0" * (-len(behind) % 8)
    size = record_bytes or 72 + len(behind)
    counts = (size, number, traits, len(groups), len(b"all-reduce"), len(name), len(source), len(b"f32[4]"))
    return struct.pack("<3Q12I", 40 + number, 60, form, *counts, 5, 6, 0, 0) + behind


def _write_ring(path: Path, sites: bytes, site_bytes: int) -> None:
    """Writes the record of a process with PE 5 and a ring of two entries, of which one was used."""
    fields = (b"XSHMFR5\n", 2**22 + 1, 3, 4, 1, site_bytes, 0, 4, 5 * 10**9)
    header = struct.pack("<8s4IQ2IQ", *fields).ljust(4096, b"\0")
    entry = struct.pack("<QQIIQQQ16x", 1, 7 << 32, 2, 3, 64, 10**9, 2 * 10**9)
    path.write_bytes(header + struct.pack("<IIQ48x", 5, 2, 1) + bytes(64) + entry + sites)


def test_entries_refer_to_the_records_of_loaded_collectives(tmp_path: Path) -> None:
    # Number 1 was lost to a full disk. What lies behind the counted bytes is not complete.
    sites = _site(0, b"jit_f/a", [[5, 6], [7]], 2, source=b"a.py:7")
    sites += _site(2, "jit_f/\u00e9".encode(), [[5, 6]], 1, form=9)
    _write_ring(tmp_path / "3.ring", sites + b"XXXX", len(sites))
    (record,) = read_job(tmp_path)
    assert (record.process, record.processes, record.life) == (3, 4, "")
    assert (record.exit_code, record.at_end) == (3, 5.0)
    assert [(site.operation, site.op, site.name) for site in record.sites] == [
        (40, "all-reduce", "jit_f/a"),
        (42, "all-reduce", "jit_f/\u00e9"),
    ]
    assert [site.groups for site in record.sites] == [((5, 6), (7,)), ((5, 6),)]
    assert [site.is_pairs for site in record.sites] == [False, True]
    assert [site.on_default_backend for site in record.sites] == [True, False]
    assert [site.source for site in record.sites] == ["a.py:7", ""]
    assert [(site.program, site.copy) for site in record.sites] == [(60, ()), (60, (9, 5, 6))]
    ((entry,),) = record.entries.values()
    assert (entry.sequence, entry.execution >> 32, entry.bytes, entry.start, entry.end) == (1, 7, 64, 1.0, 2.0)
    assert entry.site is record.sites[1]


@pytest.mark.parametrize("record_bytes", [8, 1 << 20])
def test_a_record_of_another_size_than_it_says_is_refused(tmp_path: Path, record_bytes: int) -> None:
    sites = _site(0, b"jit_f/a", [[5]], 0, record_bytes)
    _write_ring(tmp_path / "3.ring", sites + sites, 2 * len(sites) if record_bytes == 8 else record_bytes + 32)
    with pytest.raises(RecordError, match="cannot be read"):
        read_job(tmp_path)
