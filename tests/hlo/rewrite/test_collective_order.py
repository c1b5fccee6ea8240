"""Collectives that run one after the other, as they are scheduled."""

from __future__ import annotations

import re

import pytest
from hlo_text import HloModule, PassRun, run_pass

PAIRS = "source_target_pairs={{0,1},{1,0}}"
GROUPS = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
A = "f32[8]{0}"
LOOP = f"""
body {{
  v = (s32[], {A}, {A}) parameter(0)
  i = s32[] get-tuple-element(v), index=0
  x = {A} get-tuple-element(v), index=1
  y = {A} get-tuple-element(v), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  in_loop_1 = {A} collective-permute(x), channel_id=7, {PAIRS}
  in_loop_2 = {A} collective-permute(y), channel_id=8, {PAIRS}
  ROOT carried = (s32[], {A}, {A}) tuple(next, in_loop_1, in_loop_2)
}}
cond {{
  v = (s32[], {A}, {A}) parameter(0)
  i = s32[] get-tuple-element(v), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}}
first {{
  x = {A} parameter(0)
  ROOT in_first = {A} collective-permute(x), channel_id=9, {PAIRS}
}}
second {{
  x = {A} parameter(0)
  ROOT twice = {A} add(x, x)
}}
called {{
  x = {A} parameter(0)
  y = {A} parameter(1)
  s = {A} add(x, y)
  ROOT in_called = {A} collective-permute(s), channel_id=10, {PAIRS}
}}
called_with_nothing {{
  eight = {A} constant({{1,2,3,4,5,6,7,8}})
  ROOT in_called_with_nothing = {A} collective-permute(eight), channel_id=11, {PAIRS}
}}
"""


def permute(operand: str, channel: int) -> str:
    return f"{A} collective-permute({operand}), channel_id={channel}, {PAIRS}"


def module_with(*lines: str) -> str:
    """main() with the parameters p0 and p1 of eight f32, p of a truth value, and these instructions in this order."""
    body = "\n  ".join(lines)
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ l = f32[] parameter(0)  m = f32[] parameter(1)  ROOT sum = f32[] add(l, m) }}
{LOOP}
ENTRY main {{
  p0 = {A} parameter(0)
  p1 = {A} parameter(1)
  p = pred[] parameter(2)
  zero = s32[] constant(0)
  {body}
}}
"""


def ordered(*lines: str) -> PassRun:
    run = run_pass(module_with(*lines), one_at_a_time=True)
    assert run.changed
    again = run_pass(run.after.proto, one_at_a_time=True)
    assert not again.changed
    return run


def after(module: HloModule, instruction: str, operand: int = 0) -> tuple[str, ...] | None:
    """The operands of the call that an operand goes through, None if there is no such call."""
    arguments = re.match(r".*? [\w-]+\(([^)]*)\)", module.instruction(instruction))
    assert arguments
    name = arguments.group(1).split(", ")[operand]
    if not name.startswith("xla_shmem_after"):
        return None
    call = re.match(r'.*? custom-call\(([^)]*)\), custom_call_target="xla_shmem.after"', module.instruction(name))
    assert call
    return tuple(call.group(1).split(", "))


def test_independent_collectives_follow_the_one_before_them_and_keep_their_operands_buffer() -> None:
    run = ordered(
        f"a = {permute('p0', 1)}",
        f"b = {permute('p1', 2)}",
        f"c = {permute('p0', 3)}",
        f"ROOT t = ({A}, {A}, {A}) tuple(a, b, c)",
    )
    assert after(run.after, "a") is None
    assert after(run.after, "b") == ("p1", "a")
    assert after(run.after, "c") == ("p0", "b")
    (name,) = re.findall(r"(xla_shmem_after[.\d]+) = [^\n]*\(p1, a\)", run.after.text)
    assert run.after.instruction(name) == (
        f'{A} custom-call(p1, a), custom_call_target="xla_shmem.after", custom_call_has_side_effect=true, '
        "output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI, backend_config={}"
    )
    assert run.after.names() == ["p0", "p1", "p", "zero", "a", name, "b", run.after.names()[7], "c", "t"]


def test_without_the_option_there_is_no_such_call() -> None:
    run = run_pass(module_with(f"a = {permute('p0', 1)}", f"b = {permute('p1', 2)}", "ROOT s = f32[8]{0} add(a, b)"))
    assert run.changed
    assert "xla_shmem.after" not in run.after.text


def test_the_schedule_decides_where_it_differs_from_the_order_of_the_instructions() -> None:
    # In the module's bytes b comes first, since the sum takes it first.
    run = ordered(f"a = {permute('p0', 1)}", f"b = {permute('p1', 2)}", "ROOT s = f32[8]{0} add(b, a)")
    assert (after(run.after, "a"), after(run.after, "b")) == (None, ("p1", "a"))


def test_nothing_is_added_between_collectives_that_compute_with_one_another() -> None:
    lines = (f"a = {permute('p0', 1)}", f"x = {A} add(a, p1)", f"ROOT b = {permute('x', 2)}")
    assert "xla_shmem.after" not in ordered(*lines).after.text


def test_xla_orders_its_own_collectives_and_they_follow_ours() -> None:
    def gather(operand: str, channel: int) -> str:
        return f"f32[32]{{0}} all-gather({operand}), channel_id={channel}, {GROUPS}, dimensions={{0}}"

    run = ordered(
        f"a = {gather('p0', 1)}",
        f"b = {gather('p1', 2)}",
        f"c = {permute('p1', 3)}",
        f"d = {gather('p0', 4)}",
        f"e = {gather('p1', 5)}",
        f"ROOT t = (f32[32]{{0}}, f32[32]{{0}}, {A}, f32[32]{{0}}, f32[32]{{0}}) tuple(a, b, c, d, e)",
    )
    assert [after(run.after, name) for name in "abcde"] == [None, None, ("p1", "b"), ("p0", "c"), None]


def test_a_module_whose_collectives_are_all_xlas_stays() -> None:
    gather = f"f32[32]{{0}} all-gather(p0), channel_id=1, {GROUPS}, dimensions={{0}}"
    assert not run_pass(module_with(f"ROOT a = {gather}"), one_at_a_time=True).changed


def test_loops_follow_and_are_followed_and_have_an_order_of_their_own() -> None:
    run = ordered(
        f"a = {permute('p0', 1)}",
        f"t = (s32[], {A}, {A}) tuple(zero, p0, p1)",
        f"w = (s32[], {A}, {A}) while(t), condition=cond, body=body",
        f"b = {permute('p1', 2)}",
        f"out = {A} get-tuple-element(w), index=1",
        f"c = {permute('out', 3)}",
        f"ROOT r = ({A}, {A}, {A}) tuple(a, b, c)",
    )
    assert after(run.after, "w") == ("t", "a")
    assert after(run.after, "b") == ("p1", "w")
    assert after(run.after, "c") == ("out", "b")
    assert (after(run.after, "in_loop_1"), after(run.after, "in_loop_2")) == (None, ("y", "in_loop_1"))
    (aliasing,) = re.findall(r"\(t, a\).*?output_to_operand_aliasing=(\{.*?\)\})", run.after.text)
    assert aliasing == "{{0}: (0, {0}), {1}: (0, {1}), {2}: (0, {2})}"


def test_a_loop_counts_as_touching_nothing_that_goes_through_it() -> None:
    # The loop takes a's result and gives something to b, which says nothing about when it runs.
    run = ordered(
        f"a = {permute('p0', 1)}",
        f"t = (s32[], {A}, {A}) tuple(zero, a, p1)",
        f"w = (s32[], {A}, {A}) while(t), condition=cond, body=body",
        f"out = {A} get-tuple-element(w), index=1",
        f"ROOT b = {permute('out', 2)}",
    )
    assert (after(run.after, "w"), after(run.after, "b")) == (("t", "a"), ("out", "w"))


def test_branches_wait_before_they_are_chosen_and_calls_with_every_operand() -> None:
    run = ordered(
        f"a = {permute('p0', 1)}",
        f"either = {A} conditional(p, p0, p1), true_computation=first, false_computation=second",
        f"both = {A} call(p0, p1), to_apply=called",
        f"ROOT r = ({A}, {A}, {A}) tuple(a, either, both)",
    )
    assert [after(run.after, "either", i) for i in range(3)] == [("p", "a"), None, None]
    assert [after(run.after, "both", i) for i in range(2)] == [("p0", "either"), ("p1", "either")]


def test_a_call_that_no_data_leads_to_is_refused() -> None:
    module = module_with(
        f"a = {permute('p0', 1)}",
        f"b = {A} call(), to_apply=called_with_nothing",
        f"ROOT r = {A} add(a, b)",
    )
    with pytest.raises(ValueError, match="no data can put b after a"):
        run_pass(module, one_at_a_time=True)


def test_collectives_of_nothing_need_no_order() -> None:
    empty = "f32[0]{0}"
    run = ordered(
        f"none = {empty} constant({{}})",
        f"a = {empty} collective-permute(none), channel_id=1, {PAIRS}",
        f"b = {permute('p0', 2)}",
        f"ROOT t = ({empty}, {A}) tuple(a, b)",
    )
    assert "xla_shmem.after" not in run.after.text
