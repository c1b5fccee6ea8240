"""Derives from the flight records of a job which collectives do not end, and why. Pure functions."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from xla_shmem.runtime.flight_records import Entry, Outcome, ProcessRecord, Site, State


@dataclasses.dataclass(frozen=True)
class PeStatus:
    """State of one PE.

    Attributes:
      pe: number of the PE.
      process: number of its process.
      pid: process id.
      life: state of the process, in words.
      collectives: number of collectives that the PE has begun.
      under_way: collectives that it has begun and not finished, oldest first.
      last: the collective that it finished last; None if there is none.
    """

    pe: int
    process: int
    pid: int
    life: str
    collectives: int
    under_way: tuple[Entry, ...]
    last: Entry | None


@dataclasses.dataclass(frozen=True)
class Missing:
    """A PE that has not begun a collective in which others wait.

    Attributes:
      pe: number of the PE.
      why: the reason, as far as it is known: a sentence without a full stop.
    """

    pe: int
    why: str


@dataclasses.dataclass(frozen=True)
class Stuck:
    """One execution of a collective that some PEs have begun and none of them has finished.

    Attributes:
      name: ``module/instruction``.
      op: name of the op in HLO.
      run: number of the program's run, from 1.
      bytes: bytes of the operands.
      waiting: PEs that have begun it.
      missing: PEs that take part and have not begun it.
      seconds: time since the first PE began, until now or until the failure.
      failed: whether a failure has ended it.
      source: ``file:line``; ``""`` if the module does not name it.
      on_default_backend: whether XLA's own backend carries it.
    """

    name: str
    op: str
    run: int
    bytes: int
    waiting: tuple[int, ...]
    missing: tuple[Missing, ...]
    seconds: float
    failed: bool
    source: str = ""
    on_default_backend: bool = False


@dataclasses.dataclass(frozen=True)
class JobDiagnosis:
    """The conclusions from the records of one job.

    Attributes:
      pes: state of each PE, by number.
      stuck: collectives under way. Those with missing PEs come first, then the oldest.
      failures: why the job failed, as its processes recorded it; equal texts once.
      absent: number of processes of this host without a record: they did not reach their first collective.
      first_end: the process that came to its end first, as a sentence; "" if none has, or all ended well.
    """

    pes: tuple[PeStatus, ...]
    stuck: tuple[Stuck, ...]
    failures: tuple[str, ...]
    absent: int
    first_end: str


def diagnose_job(records: Sequence[ProcessRecord], now: float) -> JobDiagnosis:
    """Returns the diagnosis of a job.

    Args:
      records: at least one record, all of one job.
      now: the machine's monotonic clock, in seconds.
    """
    records = _with_common_operations(records)
    by_pe = {pe: record for record in records for pe in record.entries}
    pes = tuple(_status(pe, by_pe[pe]) for pe in sorted(by_pe))
    stuck = _stuck(by_pe, now)
    failures = tuple(dict.fromkeys(record.failure for record in records if record.failure))
    return JobDiagnosis(pes, stuck, failures, max(records[0].processes - len(records), 0), _first_end(records))


def _with_common_operations(records: Sequence[ProcessRecord]) -> Sequence[ProcessRecord]:
    """Gives the copies of a program that differ between processes, and meet all the same, the operations of the first.

    Where a process has several programs of one form, they keep theirs.
    """
    forms = {(record.process, site.copy[0], site.program) for record in records for site in record.sites if site.copy}
    several = {form for (_, form), n in Counter((process, form) for process, form, _ in forms).items() if n > 1}
    first: dict[tuple[int, ...], int] = {}

    def common(site: Site) -> Site:
        if not site.copy or site.copy[0] in several:
            return site
        return dataclasses.replace(site, operation=first.setdefault(site.copy, site.operation))

    def of_entry(entry: Entry) -> Entry:
        return entry if entry.site is None else dataclasses.replace(entry, site=common(entry.site))

    return [
        dataclasses.replace(
            record,
            sites=tuple(common(site) for site in record.sites),
            entries={pe: tuple(of_entry(entry) for entry in entries) for pe, entries in record.entries.items()},
        )
        for record in records
    ]


def _first_end(records: Sequence[ProcessRecord]) -> str:
    """Names the process to which the others came too late. A process that was killed has left no time."""
    ended = sorted((record for record in records if record.at_end is not None), key=lambda record: record.at_end or 0.0)
    killed = any(not record.life and record.at_end is None for record in records)
    if not ended or killed or all(record.exit_code == 0 for record in records):
        return ""
    first = ended[0]
    how = "is at its end" if first.exit_code is None else f"exited with code {first.exit_code}"
    return f"Process {first.process} (pid {first.pid}) was the first to come to the end of its program; it {how}."


def _status(pe: int, record: ProcessRecord) -> PeStatus:
    entries = record.entries[pe]
    finished = [entry for entry in entries if entry.state is State.DONE]
    return PeStatus(
        pe,
        record.process,
        record.pid,
        _life_in_words(record),
        entries[-1].sequence if entries else 0,
        tuple(entry for entry in entries if entry.under_way),
        max(finished, key=lambda entry: entry.end, default=None),
    )


def _life_in_words(record: ProcessRecord) -> str:
    if not record.life:
        if record.outcome is Outcome.RUNNING:
            return "was killed or crashed"
        code = f" with exit code {record.exit_code}" if record.exit_code else ""
        return f"ended{' after a failure' if record.outcome is Outcome.FAILED else ''}{code}"
    if record.life in ("T", "t"):
        return "is stopped by a signal" if record.life == "T" else "is stopped by a debugger"
    if record.at_end is not None:
        return "is at the end of its program"
    return "has failed and still runs" if record.outcome is Outcome.FAILED else "runs"


def _key(entry: Entry) -> tuple[int, int]:
    assert entry.site is not None
    return entry.site.operation, entry.execution


def _stuck(by_pe: Mapping[int, ProcessRecord], now: float) -> tuple[Stuck, ...]:
    under_way: dict[tuple[int, int], dict[int, Entry]] = {}
    begun: set[tuple[int, tuple[int, int]]] = set()
    for pe, record in by_pe.items():
        for entry in record.entries[pe]:
            if entry.site is None:
                continue
            if entry.state is not State.ENQUEUED:
                begun.add((pe, _key(entry)))
            # A collective that a failure ended was under way until then.
            if entry.under_way or entry.state is State.FAILED:
                under_way.setdefault(_key(entry), {})[pe] = entry
    found = []
    for key, entries in under_way.items():
        any_entry = next(iter(entries.values()))
        site = any_entry.site
        assert site is not None
        peers = sorted({peer for pe in entries for peer in site.peers(pe)} - set(entries))
        missing = tuple(
            Missing(peer, _why_missing(peer, key, site, by_pe.get(peer), _loaded(by_pe[min(entries)]), now))
            for peer in peers
            if (peer, key) not in begun
        )
        start = min(entry.start for entry in entries.values())
        failed = all(entry.state is State.FAILED for entry in entries.values())
        end = max(entry.end for entry in entries.values()) if failed else now
        waiting = tuple(sorted(entries))
        found.append(
            Stuck(
                site.name,
                site.op,
                any_entry.run,
                any_entry.bytes,
                waiting,
                missing,
                end - start,
                failed,
                site.source,
                site.on_default_backend,
            )
        )
    return tuple(sorted(found, key=lambda stuck: (not stuck.missing, -stuck.seconds)))


def _loaded(record: ProcessRecord) -> set[int]:
    return {site.operation for site in record.sites}


def _in_another_program(record: ProcessRecord, pe: int, site: Site, loaded_by_peer: set[int]) -> Site | None:
    """Returns the collective of `pe` that the peer has not loaded, if the peer waits in one that `record` has not.

    Then neither can come to the other. A PE between collectives may still load the peer's program.
    """
    if site.operation in _loaded(record):
        return None
    open_ends = [entry for entry in record.entries[pe] if entry.under_way or entry.state is State.FAILED]
    sites = [entry.site for entry in open_ends if entry.site is not None]
    return next((own for own in sites if own.operation not in loaded_by_peer), None)


def _why_missing(
    pe: int, key: tuple[int, int], site: Site, record: ProcessRecord | None, loaded_by_peer: set[int], now: float
) -> str:
    if record is None:
        return "no record on this host: it is on another host, or its process did not reach its first collective"
    cut_short = record.outcome is not Outcome.FAILED and (record.life in ("", "T", "t") or record.at_end is not None)
    if other := _in_another_program(record, pe, site, loaded_by_peer):
        copy = " of that name: its copy differs" if other.module == site.module else ""
        return f"process {record.process} is in {other.op} {other.name} of another program{copy}"
    if cut_short or not record.life:
        return f"process {record.process} (pid {record.pid}) {_life_in_words(record)}"
    known = [entry for entry in record.entries[pe] if entry.site is not None]
    mine = [entry for entry in known if entry.under_way]
    if mine:
        return f"it has been in {mine[0].site.name} for {now - mine[0].start:.1f} s"  # type: ignore[union-attr]
    if not record.entries[pe]:
        return "it has begun no collective yet"
    for entry in known:
        if entry.state is State.ENQUEUED and _key(entry) == key:
            return f"its GPU has not come to it, {now - entry.start:.1f} s after it was enqueued"
    return f"it has been between collectives for {now - max(e.end for e in record.entries[pe]):.1f} s"
