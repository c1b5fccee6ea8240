"""Where the collectives of a job are recorded, and the reader of xla_patch/runtime/observe/flight_recorder.h's files.

A job has a directory, named by its key, in which each process has one file. Records of jobs that failed, or whose
processes were killed, stay for `xla-shmem postmortem`; only the newest are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import itertools
import logging
import os
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from xla_shmem.errors import UserError
from xla_shmem.options import Options

logger = logging.getLogger(__name__)

#: Directories of ended jobs that are kept.
KEPT = 16

_ATTEMPTS = 100
_RING_HEADER = struct.Struct("<8s4IQ2IQ")
_RING_HEADER_BYTES = 4096
_FAILURE_OFFSET = 256
_PE_HEADER = struct.Struct("<IIQ48x")
_ENTRY = struct.Struct("<QQIIQQQ16x")
_SITE = struct.Struct("<3Q12I")
_PAIRS, _ON_DEFAULT_BACKEND = 1, 2
_MAGIC = b"XSHMFR5\n"


class State(enum.Enum):
    """State of a collective. ENQUEUED: the GPU has not come to it."""

    STARTED = 1
    WAITING = 2
    DONE = 3
    FAILED = 4
    ENQUEUED = 5


class Outcome(enum.Enum):
    """How a process has ended, as its record says."""

    RUNNING = 0
    EXITED = 1
    FAILED = 2


@dataclasses.dataclass(frozen=True)
class Site:
    """A collective of a loaded program.

    Attributes:
      operation: equal on all PEs that run the same program.
      op: as in HLO, ``all-reduce``.
      name: ``module/instruction``.
      groups: PEs; of a permute, source and target of each pair.
      is_pairs: whether `groups` are pairs.
      source: ``file:line``; ``""`` if the module does not name it.
      on_default_backend: whether XLA's own backend carries it.
      program: id of its program.
      copy: form of the program, place and part; equal for the copies of a program that differ. () if not known.
    """

    operation: int
    op: str
    name: str
    groups: tuple[tuple[int, ...], ...]
    is_pairs: bool
    source: str = ""
    on_default_backend: bool = False
    program: int = 0
    copy: tuple[int, ...] = ()

    @property
    def module(self) -> str:
        """Name of the HLO module."""
        return self.name.partition("/")[0]

    def peers(self, pe: int) -> tuple[int, ...]:
        """PEs that take part with `pe`, without itself, in order."""
        found = {other for group in self.groups if pe in group for other in group}
        return tuple(sorted(found - {pe}))


@dataclasses.dataclass(frozen=True)
class Entry:
    """An execution of a collective on one PE.

    Attributes:
      sequence: counts the PE's collectives from 1.
      execution: equal on all PEs for the same execution; run number in the high 32 bits.
      site: None if its record is missing, because the disk was full.
      state: its state.
      bytes: of the operands.
      start: seconds of the machine's monotonic clock; on GPUs when the host enqueued it.
      end: the same clock; 0 while it runs.
    """

    sequence: int
    execution: int
    site: Site | None
    state: State
    bytes: int
    start: float
    end: float

    @property
    def run(self) -> int:
        """Number of the program's run, from 1."""
        return (self.execution >> 32) + 1

    @property
    def under_way(self) -> bool:
        return self.state in (State.STARTED, State.WAITING)


@dataclasses.dataclass(frozen=True)
class ProcessRecord:
    """The record of one process.

    Attributes:
      process: its number in the job.
      processes: number of the job's processes on this host.
      pid: of the process.
      life: its state letter in ``/proc`` (``R``, ``S``, ``T`` stopped, …), ``""`` if it has ended.
      outcome: how it has ended, as it recorded itself.
      exit_code: with which it has exited; None if it has not, or was killed.
      at_end: when its program came to its end, in seconds of the machine's monotonic clock; None if it has not.
      failure: why the job failed, as this process recorded it; ``""`` for no failure.
      sites: collectives of the programs it has loaded.
      entries: by PE, oldest first.
    """

    process: int
    processes: int
    pid: int
    life: str
    outcome: Outcome
    exit_code: int | None
    at_end: float | None
    failure: str
    sites: tuple[Site, ...]
    entries: dict[int, tuple[Entry, ...]]


class RecordError(UserError):
    """A record cannot be read; the message names it and the reason."""


def records_root(setting: str) -> Path | None:
    """Returns the directory that holds the jobs' directories for a value of ``XLA_SHMEM_RECORDS``, None for ``off``."""
    if setting == "off":
        return None
    return Path(tempfile.gettempdir()) / f"xla-shmem-{os.getuid()}" if setting == "auto" else Path(setting)


def begin_trace(options: Options, process: int) -> None:
    """Removes an earlier job's trace. No process writes one before all processes have announced themselves."""
    if not options.trace or process != 0:
        return
    try:
        Path(options.trace).unlink(missing_ok=True)
    except OSError as error:
        logger.warning("xla_shmem: the trace is appended to what is there: %s", error)


def record_directory(options: Options, job: str) -> str:
    """Returns the directory for the flight records of a job, which exists; "" without records."""
    try:
        return make_job_directory(options.records, job)
    except OSError as error:
        logger.warning("xla_shmem: no flight recorder: %s", error)
        return ""


def make_job_directory(setting: str, job: str) -> str:
    """Creates the directory of a job, readable by this user only, and returns it; "" if records are off.

    Raises:
      OSError: it cannot be created, or another user owns it.
    """
    root = records_root(setting)
    if root is None:
        return ""
    directory = root / job
    for attempt in range(_ATTEMPTS):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _check_own_directory(root)  # before anything is made in it
            directory.mkdir(mode=0o700, exist_ok=True)
            break
        except FileNotFoundError:  # the last process of another job has just removed the empty root
            if attempt == _ATTEMPTS - 1:
                raise
    _check_own_directory(directory)
    _remove_old_jobs(root, job)
    return str(directory)


def _check_own_directory(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{path} is not a directory of user {os.getuid()}")


def job_directories(setting: str) -> list[Path]:
    """Returns the directories of jobs that have records, the newest first."""
    root = records_root(setting)
    if root is None or not root.is_dir():
        return []
    changed: dict[Path, float] = {}
    for path in root.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another job that has just ended well
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                changed[path] = found.st_mtime
    return sorted(changed, key=lambda path: changed[path], reverse=True)


def read_job(directory: Path) -> list[ProcessRecord]:
    """Returns the records of a job by process number.

    Raises:
      RecordError: there are none, or one does not have the format of this release.
    """
    rings = sorted(directory.glob("*.ring"), key=lambda path: int(path.stem) if path.stem.isdigit() else -1)
    if not rings:
        raise RecordError(
            f"{directory} holds no flight records; `xla-shmem postmortem` without JOB takes the last job."
        )
    return [_read_process(ring) for ring in rings]


def _read_process(ring: Path) -> ProcessRecord:
    try:
        data = ring.read_bytes()
        magic, pid, process, processes, n_pes, site_bytes, outcome, exit_status, at_end_ns = _RING_HEADER.unpack_from(
            data
        )
        if magic != _MAGIC:
            raise RecordError(f"{ring} is no flight record of this xla-shmem; read it with the release that wrote it.")
        failure = data[_FAILURE_OFFSET:_RING_HEADER_BYTES].split(b"\0", 1)[0].decode(errors="replace")
        rings = list(_read_rings(data, n_pes))
        sites = dict(_read_sites(data, rings[-1].end if rings else _RING_HEADER_BYTES, site_bytes))
        entries = {of.pe: _read_entries(data, of, sites) for of in rings}
    except (OSError, struct.error, ValueError) as error:
        raise RecordError(f"{ring} cannot be read: {error}.") from None
    listed = tuple(sites.values())
    return ProcessRecord(
        process,
        processes,
        pid,
        _life(pid, ring),
        Outcome(outcome),
        exit_status - 1 if exit_status else None,
        at_end_ns / 1e9 if at_end_ns else None,
        failure,
        listed,
        entries,
    )


@dataclasses.dataclass(frozen=True)
class _Ring:
    """Where the file has the entries of a PE."""

    pe: int
    start: int
    end: int


def _read_rings(data: bytes, n_pes: int) -> Iterator[_Ring]:
    offset = _RING_HEADER_BYTES
    for _ in range(n_pes):
        pe, count, _ = _PE_HEADER.unpack_from(data, offset)
        start = offset + _PE_HEADER.size
        offset = start + count * _ENTRY.size
        yield _Ring(pe, start, offset)


def _read_entries(data: bytes, ring: _Ring, sites: dict[int, Site]) -> tuple[Entry, ...]:
    found = []
    for fields in _ENTRY.iter_unpack(data[ring.start : ring.end]):
        sequence, execution, site, state, size, start, end = fields
        if sequence:
            found.append(Entry(sequence, execution, sites.get(site), State(state), size, start / 1e9, end / 1e9))
    return tuple(sorted(found, key=lambda entry: entry.sequence))


def _read_sites(data: bytes, offset: int, size: int) -> Iterator[tuple[int, Site]]:
    end = offset + size
    while offset < end:
        operation, program, form, record_bytes, number, traits, n_groups, *others = _SITE.unpack_from(data, offset)
        op_bytes, name_bytes, source_bytes, contents_bytes, place, part, _, _ = others
        name = offset + _SITE.size + op_bytes
        source = name + name_bytes
        contents = source + source_bytes
        sizes = contents + contents_bytes
        lengths = struct.unpack_from(f"<{n_groups}I", data, sizes)
        members = iter(struct.unpack_from(f"<{sum(lengths)}I", data, sizes + 4 * n_groups))
        groups = tuple(tuple(itertools.islice(members, length)) for length in lengths)
        yield (
            number,
            Site(
                operation,
                data[offset + _SITE.size : name].decode(),
                data[name:source].decode(errors="replace"),
                groups,
                bool(traits & _PAIRS),
                data[source:contents].decode(errors="replace"),
                bool(traits & _ON_DEFAULT_BACKEND),
                program,
                (form, place, part) if form and not traits & _ON_DEFAULT_BACKEND else (),
            ),
        )
        if record_bytes < _SITE.size:
            raise ValueError("the record of a collective is too short")
        offset += record_bytes


def _life(pid: int, ring: Path) -> str:
    """Returns the state letter of the process that wrote `ring`; "" if it has ended, even if its pid was reused."""
    with contextlib.suppress(OSError):
        if str(ring.resolve()) in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0].strip("Z")
    return ""


def _remove_old_jobs(root: Path, own: str) -> None:
    for directory in [path for path in job_directories(str(root)) if path.name != own][KEPT:]:
        with contextlib.suppress(RecordError, OSError):
            if not any(record.life for record in read_job(directory)):
                shutil.rmtree(directory, ignore_errors=True)
