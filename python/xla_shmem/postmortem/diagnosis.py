"""What the flight records of a job say about why it does not go on: a pure function of the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from xla_shmem.runtime.flight_records import Entry, Outcome, ProcessRecord, Site, State


@dataclasses.dataclass(frozen=True)
class PeStatus:
    """One PE.

    Attributes:
      pe: its number.
      process: its process.
      pid: of the process.
      life: what has become of the process, in words.
      collectives: how many the PE has begun.
      under_way: what it has begun and not finished, oldest first.
      last: the last one that it has brought to its end, None if there is none.
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
    """A PE that has not begun what others wait for.

    Attributes:
      pe: its number.
      why: what is known of it, a sentence without a stop.
    """

    pe: int
    why: str


@dataclasses.dataclass(frozen=True)
class Stuck:
    """One execution of a collective that some PEs have begun and none of these has brought to its end.

    Attributes:
      name: ``module/instruction``.
      op: as in HLO.
      run: which run of the program.
      bytes: of the operands.
      waiting: PEs that are in it.
      missing: PEs they wait for that have not begun it.
      seconds: since the first began, up to now or to the failure that ended it.
      failed: whether a failure has ended it.
    """

    name: str
    op: str
    run: int
    bytes: int
    waiting: tuple[int, ...]
    missing: tuple[Missing, ...]
    seconds: float
    failed: bool


@dataclasses.dataclass(frozen=True)
class JobDiagnosis:
    """Everything that follows from a job's records.

    Attributes:
      pes: by number.
      stuck: what is under way, the one whose peers are missing first, then the oldest first.
      failures: why the job failed, as each process that saw it says; equal texts once.
      absent: how many processes of this host have no record: they never got as far as their first collective.
    """

    pes: tuple[PeStatus, ...]
    stuck: tuple[Stuck, ...]
    failures: tuple[str, ...]
    absent: int


def diagnose_job(records: Sequence[ProcessRecord], now: float) -> JobDiagnosis:
    """Draws the conclusions.

    Args:
      records: of one job, at least one.
      now: seconds of the machine's monotonic clock.
    """
    by_pe = {pe: record for record in records for pe in record.entries}
    pes = tuple(_status(pe, by_pe[pe]) for pe in sorted(by_pe))
    stuck = _stuck(by_pe, now)
    failures = tuple(dict.fromkeys(record.failure for record in records if record.failure))
    return JobDiagnosis(pes, stuck, failures, max(records[0].processes - len(records), 0))


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
        return {
            Outcome.EXITED: "ended",
            Outcome.FAILED: "ended after a failure",
            Outcome.RUNNING: "was killed or crashed",
        }[record.outcome]
    if record.life in ("T", "t"):
        return "stopped by a signal"
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
            begun.add((pe, _key(entry)))
            # What a failure has ended was under way when it struck.
            if entry.under_way or entry.state is State.FAILED:
                under_way.setdefault(_key(entry), {})[pe] = entry
    found = []
    for key, entries in under_way.items():
        any_entry = next(iter(entries.values()))
        site = any_entry.site
        assert site is not None
        peers = sorted({peer for pe in entries for peer in site.peers(pe)} - set(entries))
        missing = tuple(
            Missing(peer, _why_missing(peer, site, by_pe.get(peer), now)) for peer in peers if (peer, key) not in begun
        )
        start = min(entry.start for entry in entries.values())
        failed = all(entry.state is State.FAILED for entry in entries.values())
        end = max(entry.end for entry in entries.values()) if failed else now
        waiting = tuple(sorted(entries))
        found.append(Stuck(site.name, site.op, key[1] >> 32, any_entry.bytes, waiting, missing, end - start, failed))
    return tuple(sorted(found, key=lambda stuck: (not stuck.missing, -stuck.seconds)))


def _why_missing(pe: int, site: Site, record: ProcessRecord | None, now: float) -> str:
    if record is None:
        return "no record of it here: another host, or its process never got as far as its first collective"
    # One that was cut short might have come to this program.
    cut_short = record.outcome is not Outcome.FAILED and record.life in ("", "T", "t")
    if not cut_short and record.sites and all(own.operation != site.operation for own in record.sites):
        return (
            f"process {record.process} has loaded no program with this collective: the processes run different programs"
        )
    if cut_short or not record.life:
        return f"process {record.process} (pid {record.pid}) {_life_in_words(record)}"
    mine = [entry for entry in record.entries[pe] if entry.under_way and entry.site is not None]
    if mine:
        return f"it is in {mine[0].site.name} itself, for {now - mine[0].start:.1f} s"  # type: ignore[union-attr]
    if not record.entries[pe]:
        return "it has begun no collective yet"
    return f"it is between collectives for {now - max(e.end for e in record.entries[pe]):.1f} s"
