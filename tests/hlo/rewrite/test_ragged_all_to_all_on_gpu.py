"""Ragged all-to-alls in the forms that XLA:GPU gives them: six operands, and a result in the buffer of the second."""

from __future__ import annotations

import pytest
from hlo_text import PassRun
from test_listed_ops import PE_HALVES
from test_listed_ops_on_gpu import CALL, FFI, HALVES, WORK, Form, run_gpu

INPUT, OUTPUT, COUNTS = "bf16[6,5]{1,0}", "bf16[9,5]{1,0}", "s64[4]{0}"
OPERANDS = (INPUT, OUTPUT, *[COUNTS] * 4)


def ragged(
    operands: tuple[str, ...] = OPERANDS, result: str = OUTPUT, groups: str = HALVES, between: str = WORK, **run: object
) -> PassRun:
    """The pass on a pair."""
    arguments = ", ".join(f"q{i}" for i in range(len(operands)))
    op = f"ragged-all-to-all({arguments}), channel_id=1, {groups}"
    return run_gpu(Form("ragged_all_to_all", operands, result, op).module(between), **run)


def unchanged(run: PassRun) -> bool:
    return all(run.after.instruction(name) == run.before.instruction(name) for name in run.before.names())


def test_a_pair_becomes_two_calls_and_the_result_stays_in_the_second_operand() -> None:
    run = ragged()
    assert run.veto() is None
    assert run.after.instruction("start") == (
        f"{OUTPUT} custom-call(p0, p1, p2, p3, p4, /*index=5*/p5), "
        f'custom_call_target="xla_shmem.ragged_all_to_all_start", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (1, {{}})}}, {FFI}"
    )
    assert run.after.instruction("done") == (
        f"{OUTPUT} custom-call(start, p0, p2, p3, p4, /*index=5*/p5), "
        f'custom_call_target="xla_shmem.ragged_all_to_all_done", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (0, {{}})}}, {FFI}"
    )
    assert run.after.instruction("work") == run.before.instruction("work")
    arguments = run.after.arguments("start")
    assert {key: arguments[key] for key in PE_HALVES} == PE_HALVES
    assert "reduction" not in arguments
    assert arguments == run.after.arguments("done")


def test_a_pair_with_nothing_between_becomes_one_call() -> None:
    run = ragged(between="b = f32[4] bitcast(n)")
    assert run.after.instruction("start") == (
        f"{OUTPUT} custom-call(p0, p1, p2, p3, p4, /*index=5*/p5), "
        f'custom_call_target="xla_shmem.ragged_all_to_all", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (1, {{}})}}, {FFI}"
    )
    assert run.after.instruction("done") == f"{OUTPUT} opt-barrier(start)"


def test_an_op_that_is_not_listed_keeps_its_pair() -> None:
    assert unchanged(ragged(ops=[("all-to-all", None)]))


@pytest.mark.parametrize(
    "rows", [("bf16[0,5]{1,0}", OUTPUT), ("pred[6]{0}", "pred[9]{0}"), ("c128[1,2,3]{2,1,0}",) * 2]
)
def test_rows_of_any_type_and_rank_are_carried(rows: tuple[str, str]) -> None:
    # XLA's own parser takes s4 too, but XLA:GPU turns it into s8 before the hook.
    run = ragged((*rows, *[COUNTS] * 4), result=rows[1])
    assert run.veto() is None
    assert run.after.target("start") == "xla_shmem.ragged_all_to_all_start"


@pytest.mark.parametrize(
    ("operands", "result", "veto"),
    [
        (("bf16[6,5]{0,1}", "bf16[9,5]{0,1}"), "bf16[9,5]{0,1}", "its input and result differ in more than the number"),
        (("bf16[6,5]{1,0}", "bf16[9,5]{0,1}"), "bf16[9,5]{0,1}", "its input and result differ in more than the number"),
        (("bf16[6,5,2]{1,2,0}", "bf16[9,5,2]{2,1,0}"), "bf16[9,5,2]{2,1,0}", "its input and result differ"),
        ((INPUT, "bf16[9,5]{0,1}"), OUTPUT, "its output operand and its result differ in shape or layout"),
    ],
)
def test_rows_that_do_not_follow_one_another_in_memory_are_vetoed(
    operands: tuple[str, str], result: str, veto: str
) -> None:
    run = ragged((*operands, *[COUNTS] * 4), result=result)
    assert (run.veto() or "").startswith(veto)
    assert unchanged(run)


@pytest.mark.parametrize(
    ("counts", "veto"),
    [
        ("s32[4]{0}", "its offsets and sizes are not s64"),
        ("s64[2,2]{1,0}", "operand 2 is not a row of integers, equally many for each of 2 devices"),
    ],
)
def test_offsets_and_sizes_of_another_form_are_vetoed(counts: str, veto: str) -> None:
    run = ragged((INPUT, OUTPUT, *[counts] * 4))
    assert run.veto() == veto
    assert unchanged(run)


def test_numbers_that_cannot_be_divided_among_the_members_are_vetoed() -> None:
    run = ragged((INPUT, OUTPUT, *["s64[3]{0}"] * 4))
    assert run.veto() == "operand 2 is not a row of integers, equally many for each of 2 devices"


def test_groups_of_several_sizes_are_vetoed() -> None:
    run = ragged(groups="replica_groups={{0,1,2},{3}}")
    assert run.veto() == "its replica groups differ in size"


def test_in_a_loop_one_call_is_the_usual_one() -> None:
    state = f"({INPUT}, {OUTPUT}, {COUNTS})"
    run = run_gpu(
        f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
body {{
  x = {state} parameter(0)
  a = {INPUT} get-tuple-element(x), index=0
  b = {OUTPUT} get-tuple-element(x), index=1
  c = {COUNTS} get-tuple-element(x), index=2
  moved = {OUTPUT} ragged-all-to-all(a, b, c, c, c, c), channel_id=1, {HALVES}
  ROOT next = {state} tuple(a, moved, c)
}}
condition {{
  c = {state} parameter(0)
  ROOT more = pred[] constant(true)
}}
ENTRY main {{
  p = {state} parameter(0)
  ROOT loop = {state} while(p), condition=condition, body=body
}}
"""
    )
    assert run.after.instruction("moved") == (
        f"{OUTPUT} custom-call(a, b, c, c, c, /*index=5*/c), "
        f'custom_call_target="xla_shmem.ragged_all_to_all", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (1, {{}})}}, {FFI}"
    )
