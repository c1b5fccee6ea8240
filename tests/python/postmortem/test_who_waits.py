"""The diagnosis of a job from its flight records."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from xla_shmem.postmortem.who_waits import JobDiagnosis, diagnose_job
from xla_shmem.runtime.flight_records import Entry, Outcome, ProcessRecord, Site, State

NOW = 1000.0
SUM = Site(1, "all-reduce", "jit_step/psum.1", ((0, 1, 2),), is_pairs=False)
SHIFT = Site(2, "collective-permute", "jit_step/ppermute.2", ((0, 1), (1, 2)), is_pairs=True)
COPY = dataclasses.replace(SUM, operation=8)
OTHER = Site(9, "all-reduce", "jit_eval/psum.1", ((0, 1, 2),), is_pairs=False)

_sequences = itertools.count(1)


def entry(site: Site, state: State, start: float, end: float = 0.0, run: int = 0) -> Entry:
    return Entry(next(_sequences), run << 32, site, state, 4096, start, end)


def record(pe: int, *entries: Entry, sites: tuple[Site, ...] = (SUM, SHIFT), **other: object) -> ProcessRecord:
    fields: dict[str, object] = {
        "life": "S",
        "outcome": Outcome.RUNNING,
        "exit_code": None,
        "at_end": None,
        "failure": "",
    } | other
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


def test_nothing_is_stuck_if_every_collective_is_done() -> None:
    diagnosis = diagnose_job([record(pe, entry(SUM, State.DONE, 990.0, 991.0)) for pe in range(3)], NOW)
    assert diagnosis.stuck == ()
    assert diagnosis.absent == 0
    assert [status.last is not None for status in diagnosis.pes] == [True] * 3


def test_the_first_process_to_come_to_its_end_is_named_with_its_exit_code() -> None:
    ended = [record(0, life="", outcome=Outcome.FAILED, exit_code=1, at_end=996.0), record(1, at_end=995.0)]
    first = "Process 1 (pid 101) was the first to come to the end of its program; it "
    assert diagnose_job([*ended, record(2)], NOW).first_end == first + "is at its end."
    exited = dataclasses.replace(ended[1], life="", outcome=Outcome.EXITED, exit_code=3)
    assert diagnose_job([ended[0], exited], NOW).first_end == first + "exited with code 3."
    # A process that was killed has left no time.
    assert diagnose_job([*ended, record(2, life="")], NOW).first_end == ""
    well = [record(pe, life="", outcome=Outcome.EXITED, exit_code=0, at_end=990.0 + pe) for pe in range(2)]
    assert diagnose_job(well, NOW).first_end == ""


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"life": ""}, "process 2 (pid 102) was killed or crashed"),
        ({"life": "", "outcome": Outcome.EXITED, "exit_code": 0}, "process 2 (pid 102) ended"),
        ({"life": "", "outcome": Outcome.EXITED, "exit_code": 3}, "process 2 (pid 102) ended with exit code 3"),
        ({"at_end": 995.0}, "process 2 (pid 102) is at the end of its program"),
        ({"life": "t"}, "process 2 (pid 102) is stopped by a debugger"),
        ({"life": "T"}, "process 2 (pid 102) is stopped by a signal"),
        ({"sites": (OTHER,)}, "it has begun no collective yet"),
        ({"sites": ()}, "it has begun no collective yet"),
    ],
)
def test_a_missing_pe_is_named_with_the_reason(other: dict[str, object], why: str) -> None:
    diagnosis = diagnose_job([waiting(0), waiting(1), record(2, **other)], NOW)  # type: ignore[arg-type]
    (stuck,) = diagnosis.stuck
    assert stuck.waiting == (0, 1)
    assert stuck.seconds == pytest.approx(10.0)
    assert not stuck.failed
    assert list(why_missing(diagnosis)) == [2]
    assert why in why_missing(diagnosis)[2]


def test_a_pe_between_collectives_and_a_pe_stuck_in_another_collective_have_different_reasons() -> None:
    idle = record(2, entry(SHIFT, State.DONE, 980.0, 985.0))
    assert why_missing(diagnose_job([waiting(0), waiting(1), idle], NOW)) == {
        2: "it has been between collectives for 15.0 s"
    }
    elsewhere = record(2, entry(OTHER, State.WAITING, 995.0), sites=(SUM, OTHER))
    diagnosis = diagnose_job([waiting(0), waiting(1), elsewhere], NOW)
    by_name = {stuck.name: {missing.pe: missing.why for missing in stuck.missing} for stuck in diagnosis.stuck}
    assert by_name[SUM.name] == {2: "it has been in jit_eval/psum.1 for 5.0 s"}
    assert set(by_name[OTHER.name]) == {0, 1}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (OTHER, "process 2 is in all-reduce jit_eval/psum.1 of another program"),
        (COPY, "process 2 is in all-reduce jit_step/psum.1 of another program of that name: its copy differs"),
    ],
)
@pytest.mark.parametrize("state", [State.WAITING, State.FAILED])
def test_a_pe_in_a_program_that_nobody_else_has_loaded_is_named(other: Site, why: str, state: State) -> None:
    elsewhere = record(2, entry(other, state, 995.0, 998.0), sites=(SHIFT, other))
    diagnosis = diagnose_job([waiting(0), waiting(1), elsewhere], NOW)
    by_operation = {stuck.waiting: {missing.pe: missing.why for missing in stuck.missing} for stuck in diagnosis.stuck}
    assert by_operation[0, 1] == {2: why}


def test_in_a_permute_only_connected_pes_are_missing() -> None:
    diagnosis = diagnose_job([record(0, entry(SHIFT, State.WAITING, 990.0)), record(1), record(2)], NOW)
    assert list(why_missing(diagnosis)) == [1]


def test_runs_of_one_program_are_distinguished() -> None:
    late = record(2, entry(SUM, State.DONE, 980.0, 985.0, run=6))
    ahead = [record(pe, entry(SUM, State.WAITING, 990.0, run=7)) for pe in (0, 1)]
    (stuck,) = diagnose_job([*ahead, late], NOW).stuck
    assert (stuck.run, [missing.pe for missing in stuck.missing]) == (8, [2])


def test_no_pe_is_missing_in_a_collective_that_all_have_begun() -> None:
    (stuck,) = diagnose_job([waiting(pe) for pe in range(3)], NOW).stuck
    assert stuck.missing == ()


def test_the_time_of_a_failed_collective_ends_with_the_failure() -> None:
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


def test_processes_without_a_record_are_counted_and_their_pes_are_missing() -> None:
    diagnosis = diagnose_job([waiting(0), waiting(1)], NOW)
    assert diagnosis.absent == 1
    assert "no record on this host" in why_missing(diagnosis)[2]


def test_entries_without_a_name_are_accepted() -> None:
    nameless = dataclasses.replace(entry(SUM, State.WAITING, 990.0), site=None)
    diagnosis = diagnose_job([record(0, nameless)], NOW)
    assert diagnosis.stuck == ()
    assert diagnosis.pes[0].under_way == (nameless,)


def test_a_gpu_that_has_not_come_to_a_collective_is_missing_there() -> None:
    queued = record(2, entry(SUM, State.DONE, 980.0, 981.0, run=1), entry(SUM, State.ENQUEUED, 990.0))
    diagnosis = diagnose_job([waiting(0), waiting(1), queued], NOW)
    assert why_missing(diagnosis) == {2: "its GPU has not come to it, 10.0 s after it was enqueued"}
    (stuck,) = diagnosis.stuck
    assert stuck.waiting == (0, 1)


def test_collectives_that_no_gpu_has_come_to_are_not_stuck() -> None:
    assert diagnose_job([record(pe, entry(SUM, State.ENQUEUED, 990.0)) for pe in range(3)], NOW).stuck == ()


def test_copies_of_a_program_that_differ_meet_unless_a_process_has_several() -> None:
    own = dataclasses.replace(SUM, operation=20, program=3, copy=(7, 0, 0))
    other = dataclasses.replace(SUM, operation=30, program=4, copy=(7, 0, 0))
    third = dataclasses.replace(SUM, operation=40, program=5, copy=(7, 0, 0))
    waits = [record(0, entry(own, State.WAITING, 990.0), sites=(own,))]
    waits.append(record(1, entry(other, State.WAITING, 990.0), sites=(other,)))
    idle = record(2, sites=(third,))
    (stuck,) = diagnose_job([*waits, idle], NOW).stuck
    assert (stuck.waiting, [missing.pe for missing in stuck.missing]) == ((0, 1), [2])
    several = record(2, sites=(third, dataclasses.replace(third, operation=41, program=6)))
    assert [stuck.waiting for stuck in diagnose_job([*waits, several], NOW).stuck] == [(0,), (1,)]
