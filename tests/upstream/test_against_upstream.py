"""Compares our assigner in profile upstream with upstream's own, on the same modules."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from answer_table import TABLE, table
from answers import THRESHOLD, Answer, programs, read_answers, upstream_backends
from differences import Row, complaints, read_rows
from placements import RELEASES, placements_for

# First lines of the compiler's error for a refused program, and the prefix of the programs that it may refuse.
_REFUSALS = {
    r"FAILED_PRECONDITION: Non homogenous replica group": "groups_",
    r"ABORTED: element type c64 not suppored by Nvshmem": "all_reduce_complex64",
    r"ABORTED: element type f8e4m3fn not suppored by (Nvshmem|NCCL)": "all_reduce_float8_e4m3fn",
}


def test_there_are_enough_programs_and_answers_of_both_kinds(root: Path, answers: list[Answer]) -> None:
    for release in RELEASES:
        assert sum(len(programs(root / release / p.name)) for p in placements_for(release)) >= 200
        mine = [answer for answer in answers if answer.release == release and answer.stage == "assigner"]
        for op in ("all-reduce", "collective-permute"):
            assert {answer.upstream for answer in mine if answer.op == op} >= {"NVSHMEM", "DEFAULT"}, (release, op)
        assert {"all-gather", "reduce-scatter", "all-to-all"} <= {answer.op for answer in mine}


def test_every_program_compiles_or_is_refused_for_a_known_reason(root: Path) -> None:
    for release in RELEASES:
        for placement in placements_for(release):
            for program, complaint in programs(root / release / placement.name).items():
                known = any(re.match(r, complaint) and program.startswith(p) for r, p in _REFUSALS.items())
                assert complaint == "" or known, f"{release} {placement.name} {program}: {complaint}"


def test_every_program_has_its_collectives(root: Path, answers: list[Answer]) -> None:
    with_collectives = {(answer.release, answer.placement, answer.program) for answer in answers}
    for release in RELEASES:
        for placement in placements_for(release):
            for program in programs(root / release / placement.name):
                assert (release, placement.name, program) in with_collectives


def test_decisions_equal_those_of_upstream_except_for_listed_differences(
    answers: list[Answer], rows: list[Row]
) -> None:
    problems = complaints(rows, answers)
    assert not problems, f"{len(problems)} problems, the first:\n" + "\n".join(problems[:20])


def test_the_published_table_has_these_answers(answers: list[Answer]) -> None:
    assert TABLE.read_text() == table(answers), f"write the output of `tests/upstream/answer_table.py` to {TABLE}"


@pytest.mark.parametrize("threshold", [THRESHOLD - 4, THRESHOLD + 1, THRESHOLD + 4])
def test_a_threshold_that_is_off_by_one_element_is_found(root: Path, rows: list[Row], threshold: int) -> None:
    assert any(problem.startswith("not listed") for problem in complaints(rows, read_answers(root, threshold)))


def test_a_missing_row_and_an_extra_row_are_found(answers: list[Answer], rows: list[Row]) -> None:
    differences = [answer for answer in answers if answer.differs]
    for row in rows:
        without = complaints([other for other in rows if other is not row], differences)
        assert any(problem.startswith("not listed") for problem in without), row
    invented = replace(rows[0], programs=("no_such_program",))
    assert complaints([*rows, invented], differences) != []
    twice = complaints([*rows, replace(rows[0], reason="the same again")], differences)
    assert any(problem.startswith("listed 2 times") for problem in twice)


def test_a_collective_without_a_printed_backend_is_on_default() -> None:
    text = """%wrapped (p: f32[8]) -> f32[64] {
  ROOT %gather = f32[64]{0} all-gather(%p), dimensions={0}
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %start = ((f32[8]{0}), f32[64]{0}) async-start(%p), calls=%wrapped
  %sum.1 = f32[8]{0} all-reduce(%p), to_apply=%sum, backend_config={"collective_backend_config":{"backend":"NVSHMEM"}}
  ROOT %permute = f32[8]{0} collective-permute(%sum.1), source_target_pairs={{0,1}}
}"""
    assert upstream_backends(text) == {"start": "DEFAULT", "sum.1": "NVSHMEM", "permute": "DEFAULT"}


def test_a_row_without_a_reason_is_refused() -> None:
    row = "nowhere,final,0.8.3,1x1x8,a,DEFAULT,NVSHMEM,size"
    with pytest.raises(ValueError, match='no section "### nowhere"'):
        read_rows(f"reason,…\n{row}\n", "\n### somewhere\n")
