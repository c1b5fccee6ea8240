"""Who is stuck where, from the flight records of a job."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from xla_shmem.postmortem.diagnosis import JobDiagnosis, diagnose_job
from xla_shmem.runtime.flight_records import Entry, Outcome, ProcessRecord, Site, State

NOW = 1000.0
SUM = Site(1, "all-reduce", "jit_step/psum.1", ((0, 1, 2),), is_pairs=False)
SHIFT = Site(2, "collective-permute", "jit_step/ppermute.2", ((0, 1), (1, 2)), is_pairs=True)
OTHER = Site(9, "all-reduce", "jit_eval/psum.1", ((0, 1, 2),), is_pairs=False)

_sequences = itertools.count(1)


def entry(site: Site, state: State, start: float, end: float = 0.0, run: int = 0) -> Entry:
    return Entry(next(_sequences), run << 32, site, state, 4096, start, end)


def record(pe: int, *entries: Entry, sites: tuple[Site, ...] = (SUM, SHIFT), **other: object) -> ProcessRecord:
    fields: dict[str, object] = {"life": "S", "outcome": Outcome.RUNNING, "failure": ""} | other
    return ProcessRecord(
        process=pe,
        processes=3,
        pid=100 + pe,
        sites=sites,
        entries={pe: entries},
        **fields,  # type: ignore[arg-type]
    )


def why_missing(diagnosis: JobDiagnosis) -> dict[int, str]:
    (stuck,) = [stuck for stuck in diagnosis.stuck if stuck.missing]
    return {missing.pe: missing.why for missing in stuck.missing}


def waiting(pe: int) -> ProcessRecord:
    return record(pe, entry(SUM, State.WAITING, 990.0))


def test_nothing_is_stuck_where_everything_is_done() -> None:
    diagnosis = diagnose_job([record(pe, entry(SUM, State.DONE, 990.0, 991.0)) for pe in range(3)], NOW)
    assert diagnosis.stuck == ()
    assert diagnosis.absent == 0
    assert [status.last is not None for status in diagnosis.pes] == [True] * 3


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"life": ""}, "process 2 (pid 102) was killed or crashed"),
        ({"life": "", "outcome": Outcome.EXITED}, "process 2 (pid 102) ended"),
        ({"life": "T"}, "process 2 (pid 102) stopped by a signal"),
        ({"sites": (OTHER,)}, "process 2 has loaded no program with this collective: the processes run different"),
        ({"sites": ()}, "it has begun no collective yet"),
    ],
)
def test_a_pe_that_never_arrived_is_named_with_what_is_known_of_it(other: dict[str, object], why: str) -> None:
    diagnosis = diagnose_job([waiting(0), waiting(1), record(2, **other)], NOW)  # type: ignore[arg-type]
    (stuck,) = diagnosis.stuck
    assert stuck.waiting == (0, 1)
    assert stuck.seconds == pytest.approx(10.0)
    assert not stuck.failed
    assert list(why_missing(diagnosis)) == [2]
    assert why in why_missing(diagnosis)[2]


def test_a_pe_between_collectives_is_told_from_one_that_is_stuck_elsewhere() -> None:
    idle = record(2, entry(SHIFT, State.DONE, 980.0, 985.0))
    assert why_missing(diagnose_job([waiting(0), waiting(1), idle], NOW)) == {2: "it is between collectives for 15.0 s"}
    elsewhere = record(2, entry(OTHER, State.WAITING, 995.0), sites=(SUM, OTHER))
    diagnosis = diagnose_job([waiting(0), waiting(1), elsewhere], NOW)
    by_name = {stuck.name: {missing.pe: missing.why for missing in stuck.missing} for stuck in diagnosis.stuck}
    assert by_name[SUM.name] == {2: "it is in jit_eval/psum.1 itself, for 5.0 s"}
    assert set(by_name[OTHER.name]) == {0, 1}


def test_only_those_that_a_permute_connects_are_waited_for() -> None:
    diagnosis = diagnose_job([record(0, entry(SHIFT, State.WAITING, 990.0)), record(1), record(2)], NOW)
    assert list(why_missing(diagnosis)) == [1]


def test_runs_of_one_program_are_told_apart() -> None:
    late = record(2, entry(SUM, State.DONE, 980.0, 985.0, run=6))
    ahead = [record(pe, entry(SUM, State.WAITING, 990.0, run=7)) for pe in (0, 1)]
    (stuck,) = diagnose_job([*ahead, late], NOW).stuck
    assert (stuck.run, [missing.pe for missing in stuck.missing]) == (7, [2])


def test_a_collective_that_all_have_begun_waits_for_nobody_who_is_missing() -> None:
    (stuck,) = diagnose_job([waiting(pe) for pe in range(3)], NOW).stuck
    assert stuck.missing == ()


def test_what_a_failure_has_ended_is_told_with_the_time_up_to_it() -> None:
    failed = [
        record(pe, entry(SUM, State.FAILED, 900.0, 960.0), life="", outcome=Outcome.FAILED, failure="gave up")
        for pe in (0, 1)
    ]
    diagnosis = diagnose_job([*failed, record(2, life="")], NOW)
    assert diagnosis.failures == ("gave up",)
    (stuck,) = diagnosis.stuck
    assert stuck.failed
    assert stuck.seconds == pytest.approx(60.0)
    assert list(why_missing(diagnosis)) == [2]


def test_processes_without_a_record_are_counted_and_waited_for_as_such() -> None:
    diagnosis = diagnose_job([waiting(0), waiting(1)], NOW)
    assert diagnosis.absent == 1
    assert "no record of it here" in why_missing(diagnosis)[2]


def test_entries_without_a_name_do_no_harm() -> None:
    nameless = dataclasses.replace(entry(SUM, State.WAITING, 990.0), site=None)
    diagnosis = diagnose_job([record(0, nameless)], NOW)
    assert diagnosis.stuck == ()
    assert diagnosis.pes[0].under_way == (nameless,)
