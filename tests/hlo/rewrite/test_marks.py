"""The calls around collectives of XLA:CPU that stay on the default backend, whose executions they record."""

from __future__ import annotations

import re

import pytest
from hlo_text import DEVICES, HloModule, PassRun, run_pass

from xla_shmem import _core

GROUPS = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
PAIRS = "source_target_pairs={{0,1},{1,0}}"
A = "f32[8]{0}"
#: All of these stay, by a limit that none is below.
NONE = [("all-reduce", 0), ("collective-permute", 0), ("all-gather", 0)]


def gather(operand: str, channel: int) -> str:
    return f"f32[32]{{0}} all-gather({operand}), channel_id={channel}, {GROUPS}, dimensions={{0}}"


def module_with(*lines: str, before: str = "") -> str:
    """main() with the parameters p0 and p1 of eight f32, p of a truth value, and these instructions in this order."""
    body = "\n  ".join(lines)
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ l = f32[] parameter(0)  m = f32[] parameter(1)  ROOT sum = f32[] add(l, m) }}
{before}
ENTRY main {{
  p0 = {A} parameter(0)
  p1 = {A} parameter(1)
  p = pred[] parameter(2)
  {body}
}}
"""


def marked(module: str, **options: object) -> PassRun:
    return run_pass(module, mark_default_collectives=True, **options)


def calls(module: HloModule, kind: str, computation: str = "main") -> list[str]:
    return [name for name in module.names(computation) if name.startswith(f"xla_shmem_{kind}.")]


def operands(module: HloModule, name: str) -> tuple[str, ...]:
    found = re.match(r".*? [\w-]+\(([^)]*)\)", module.instruction(name))
    assert found
    return tuple(found.group(1).split(", "))


def test_a_call_takes_the_operands_and_another_the_result_and_the_collective_keeps_its_bytes() -> None:
    run = marked(module_with(f"ROOT g = {gather('p0', 1)}"))
    (begin,), (end,) = calls(run.after, "begin"), calls(run.after, "end")
    assert run.after.names() == ["p0", "p1", "p", begin, "g", end]
    assert run.after.instruction(begin) == (
        's32[1]{0} custom-call(p0), custom_call_target="xla_shmem.begin", custom_call_has_side_effect=true, '
        "api_version=API_VERSION_TYPED_FFI"
    )
    assert run.after.instruction(end) == (
        f'() custom-call(g, {begin}), custom_call_target="xla_shmem.end", custom_call_has_side_effect=true, '
        "api_version=API_VERSION_TYPED_FFI"
    )
    assert run.after.instruction("g") == run.before.instruction("g")
    assert "ROOT g = " in run.after.text
    arguments = run.after.arguments(begin)
    assert arguments == run.after.arguments(end)
    # Device i is PE 3 - i.
    assert {key: arguments[key] for key in ("module", "name", "collective", "bytes", "groups")} == {
        "module": '"jit_f"',
        "name": '"g"',
        "collective": '"all-gather"',
        "bytes": "32",
        "groups": "array<i64: 3, 2, 1, 0>",
    }


def test_the_calls_stand_next_to_the_collective_in_the_schedule_where_it_differs_from_the_module() -> None:
    # In the module's bytes b comes first, since the sum takes it first.
    lines = (f"a = {gather('p0', 1)}", f"b = {gather('p1', 2)}", "ROOT s = f32[32]{0} add(b, a)")
    after = marked(module_with(*lines)).after
    # XLA prints the schedule of a scheduled module.
    first, second = calls(after, "begin")
    assert (operands(after, first), operands(after, second)) == (("p0",), ("p1",))
    one, two = calls(after, "end")
    assert after.names()[3:] == [first, "a", one, second, "b", two, "s"]
    assert after.arguments(first)["op"] != after.arguments(second)["op"]


def test_without_the_option_and_on_gpus_there_are_no_calls() -> None:
    module = module_with(f"ROOT g = {gather('p0', 1)}")
    assert not run_pass(module).changed
    for lowering in ("gpu", "none"):
        assert "xla_shmem_begin" not in marked(module, lowering=lowering).after.text


def test_only_what_stays_on_the_default_backend_has_calls() -> None:
    lines = (
        f"a = {gather('p0', 1)}",
        f"b = {A} collective-permute(p1), channel_id=2, {PAIRS}",
        f"ROOT t = (f32[32]{{0}}, {A}) tuple(a, b)",
    )
    after = marked(module_with(*lines)).after
    assert after.target("b") == "xla_shmem.collective_permute"
    assert [after.arguments(name)["name"] for name in calls(after, "begin")] == ['"a"']
    everything = marked(module_with(*lines), ops=NONE).after
    assert [everything.arguments(name)["name"] for name in calls(everything, "end")] == ['"a"', '"b"']
    assert everything.arguments(calls(everything, "end")[1])["pairs"] == "array<i64: 3, 2, 2, 3>"


def test_a_combined_collective_has_one_pair_of_calls_for_all_its_arrays() -> None:
    run = marked(
        module_with(
            f"r = ({A}, {A}) all-reduce(p0, p1), channel_id=1, {GROUPS}, to_apply=add",
            f"x = {A} get-tuple-element(r), index=0",
            f"y = {A} get-tuple-element(r), index=1",
            f"ROOT s = {A} add(x, y)",
        ),
        ops=NONE,
    )
    (begin,), (end,) = calls(run.after, "begin"), calls(run.after, "end")
    assert operands(run.after, begin) == ("p0", "p1")
    assert operands(run.after, end) == ("r", begin)
    assert run.after.arguments(begin)["bytes"] == "64"


def test_collectives_in_loops_branches_and_called_computations_have_calls_there() -> None:
    inner = f"""
body {{
  v = (s32[], {A}) parameter(0)
  i = s32[] get-tuple-element(v), index=0
  x = {A} get-tuple-element(v), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  in_loop = {A} collective-permute(x), channel_id=7, {PAIRS}
  ROOT carried = (s32[], {A}) tuple(next, in_loop)
}}
cond {{
  v = (s32[], {A}) parameter(0)
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
  ROOT in_called = {A} collective-permute(x), channel_id=10, {PAIRS}
}}
"""
    lines = (
        "zero = s32[] constant(0)",
        f"carry = (s32[], {A}) tuple(zero, p0)",
        f"loop = (s32[], {A}) while(carry), condition=cond, body=body",
        f"l = {A} get-tuple-element(loop), index=1",
        f"b = {A} conditional(p, p1, p1), true_computation=first, false_computation=second",
        f"c = {A} call(b), to_apply=called",
        f"ROOT s = {A} add(l, c)",
    )
    after = marked(module_with(*lines, before=inner), ops=NONE).after
    for computation, name in (("body", "in_loop"), ("first", "in_first"), ("called", "in_called")):
        (begin,), (end,) = calls(after, "begin", computation), calls(after, "end", computation)
        names = after.names(computation)
        place = names.index(name)
        assert names[place - 1 : place + 2] == [begin, name, end]
    assert calls(after, "begin") == []


@pytest.mark.parametrize("fault", ["nothing to move", "an unknown device"])
def test_collectives_of_which_nothing_is_known_have_no_calls(fault: str) -> None:
    options: dict[str, object] = {}
    module = module_with(f"ROOT g = {gather('p0', 1)}")
    if fault == "nothing to move":
        empty = f"f32[0]{{0}} collective-permute(e), channel_id=1, {PAIRS}"
        module = module_with("e = f32[0]{0} constant({})", f"ROOT g = {empty}")
    else:
        options["topology"] = _core.Topology([(i, i, 0, 0, i) for i in range(DEVICES - 1)])
    assert "xla_shmem_begin" not in marked(module, ops=NONE, **options).after.text


def test_with_collectives_in_one_order_the_calls_change_nothing_of_it() -> None:
    lines = (
        f"a = {gather('p0', 1)}",
        f"b = {A} collective-permute(p1), channel_id=2, {PAIRS}",
        f"c = {gather('p1', 3)}",
        f"ROOT t = (f32[32]{{0}}, {A}, f32[32]{{0}}) tuple(a, b, c)",
    )
    plain = run_pass(module_with(*lines), one_at_a_time=True).after
    after = marked(module_with(*lines), one_at_a_time=True).after
    assert len(calls(after, "begin")) == 2
    added = re.compile(r".*xla_shmem_(?:begin|end).*\n")
    numbers = re.compile(r"xla_shmem_after\.\d+")
    assert numbers.sub("AFTER", added.sub("", after.text)) == numbers.sub("AFTER", plain.text)


def test_a_module_that_would_lose_its_aliasing_only_for_the_calls_stays() -> None:
    aliased = module_with(f"ROOT g = {gather('p0', 1)}").replace(
        "num_partitions=4", "num_partitions=4, input_output_alias={ {}: (1, {}, may-alias) }"
    )
    plain = module_with(f"ROOT g = {gather('p0', 1)}")
    assert not marked(aliased, marks_keep_aliasing=True).changed
    assert marked(aliased).changed
    assert marked(plain, marks_keep_aliasing=True).changed
    # The attributes of a considered collective are a change already.
    assert "xla_shmem_begin" in marked(aliased, ops=NONE, marks_keep_aliasing=True).after.text
