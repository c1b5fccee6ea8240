"""All-to-alls of arrays that XLA has cut up and put together again, which one call does without either."""

from __future__ import annotations

import re

import pytest
from hlo_text import PassRun, run_pass
from reference_proto import decode

WHOLE, PART = "f32[8,6]{1,0}", "f32[2,6]{1,0}"
SLICES = ["cut", "slice.1", "slice.2", "slice.3"]
PARTS = ["part.0", "part.1", "part.2", "part.3"]
JOINED = f"{WHOLE} concatenate(part.0, part.1, part.2, part.3), dimensions={{0}}"


def cut_module(
    order: tuple[int, ...] = (0, 1, 2, 3),
    joined: str = JOINED,
    stride: int = 1,
    between: str = "",
    behind: str = "",
    last: str = "",
    waits_for: str = "",
    scheduled: bool = True,
) -> str:
    """main(x) = concatenate(all-to-all(slices of x)) + x, as XLA:CPU writes lax.all_to_all(x, ..., 0, 0, tiled=True).

    One of the slices is a fusion. `order`: which part each slice takes. `between`: an instruction that runs between the
    slices and the collective; `behind`: one between the collective and the concatenation; `last`: one after
    the root, which also comes last in the module. `waits_for`: the collective's control predecessor.
    """

    def ranges(k: int) -> str:
        return f"slice={{[{2 * k}:{2 * k + 2}:{stride}], [0:6]}}"

    waits = f", control-predecessors={{{waits_for}}}" if waits_for else ""
    return f"""
HloModule jit_c, {"is_scheduled=true, " if scheduled else ""}num_partitions=4
wrapped_slice {{ p = {WHOLE} parameter(0)  ROOT s = {PART} slice(p), {ranges(order[0])} }}
step {{ ROOT p = f32[3]{{0}} parameter(0) }}
stop {{ p = f32[3]{{0}} parameter(0)  ROOT yes = pred[] constant(true) }}
ENTRY main {{
  x = {WHOLE} parameter(0)
  y = f32[3]{{0}} parameter(1)
  flag = pred[] parameter(2)
  cut = {PART} fusion(x), kind=kLoop, calls=wrapped_slice
  slice.1 = {PART} slice(x), {ranges(order[1])}
  slice.2 = {PART} slice(x), {ranges(order[2])}
  slice.3 = {PART} slice(x), {ranges(order[3])}
  {between}
  op = ({PART}, {PART}, {PART}, {PART}) all-to-all(cut, slice.1, slice.2, slice.3), channel_id=1,
    replica_groups={{{{0,1,2,3}}}}{waits}, metadata={{op_name="jit(f)/all_to_all" source_file="train.py" source_line=9}}
  {behind}
  part.0 = {PART} get-tuple-element(op), index=0
  part.1 = {PART} get-tuple-element(op), index=1
  part.2 = {PART} get-tuple-element(op), index=2
  part.3 = {PART} get-tuple-element(op), index=3
  joined = {joined}
  ROOT sum = {WHOLE} add(joined, x)
  {last}
}}
"""


def fold(module: str) -> PassRun:
    """Runs the pass; the one all-to-all has become a call, and the schedule holds what the module holds."""
    run = run_pass(module, ops=[("all-to-all", None)])
    (record,) = run.records.values()
    assert (record["name"], record["bytes"], record["lowered"]) == ("op", 192, "NVSHMEM")
    assert run.after.target("op") == "xla_shmem.all_to_all"
    (main,) = (c for c in decode(run.after.proto).computations if c.name == "main")
    assert sorted(i.name for i in main.instructions) == sorted(run.after.names())
    if "is_scheduled" in module:
        (sequence,) = (s.instruction_ids for k, s in decode(run.after.proto).schedule.sequences.items() if k == main.id)
        assert {i.id for i in main.instructions} == set(sequence)
        assert len(main.instructions) == len(sequence)
    return run


def call_of(run: PassRun) -> str:
    """`shape custom-call(operands)` of the call."""
    return run.after.instruction("op").partition(", custom_call_target")[0]


def uncut_operands_stay(run: PassRun) -> bool:
    return call_of(run).endswith("(cut, slice.1, slice.2, slice.3)")


def replaces_the_concatenation(run: PassRun) -> bool:
    return call_of(run).startswith(WHOLE) and "joined" not in run.after.names()


IN_PLACE = f"({PART}, {PART}, {PART}, {PART}) custom-call"


def test_slices_and_concatenation_go_and_the_call_stands_where_the_concatenation_stood() -> None:
    run = fold(cut_module())
    assert run.after.names() == ["x", "y", "flag", "op", "sum"]
    assert call_of(run) == f"{WHOLE} custom-call(x)"
    assert run.after.instruction("sum") == f"{WHOLE} add(op, x)"
    assert "wrapped_slice" not in run.after.text


def test_the_call_keeps_the_source_line_of_the_all_to_all() -> None:
    (record,) = fold(cut_module()).records.values()
    assert (record["source_file"], record["source_line"]) == ("train.py", 9)


@pytest.mark.parametrize(
    "module",
    [cut_module((1, 0, 2, 3)), cut_module((0, 1, 2, 2)), cut_module(stride=2)],
    ids=["order", "twice", "stride"],
)
def test_slices_that_are_not_the_parts_in_order_stay_and_the_concatenation_goes(module: str) -> None:
    run = fold(module)
    assert run.after.names() == ["x", "y", "flag", *SLICES, "op", "sum"]
    assert call_of(run) == f"{WHOLE} custom-call(cut, slice.1, slice.2, slice.3)"
    assert "wrapped_slice" in run.after.text


@pytest.mark.parametrize(
    "joined",
    [
        JOINED.replace("part.1, part.2", "part.2, part.1"),
        JOINED.replace("part.3", "part.2"),
        "f32[2,24]{1,0} concatenate(part.0, part.1, part.2, part.3), dimensions={1}",
    ],
    ids=["order", "twice", "columns"],
)
def test_a_concatenation_of_other_parts_or_along_another_dimension_stays(joined: str) -> None:
    run = fold(cut_module(joined=joined))
    assert run.after.names() == ["x", "y", "flag", "op", *PARTS, "joined", "sum"]
    assert call_of(run) == f"{IN_PLACE}(x)"
    assert "wrapped_slice" not in run.after.text


#: Where an instruction can stand beside the collective: arguments of cut_module.
PLACES = ["between", "behind", "last"]


def with_instruction(place: str, line: str) -> str:
    between, behind, last = (line if place == each else "" for each in PLACES)
    return cut_module(between=between, behind=behind, last=last)


@pytest.mark.parametrize("place", PLACES)
def test_a_slice_with_another_user_stays(place: str) -> None:
    assert uncut_operands_stay(fold(with_instruction(place, f"reader = {PART} negate(slice.2)")))


@pytest.mark.parametrize("place", PLACES)
def test_a_slice_that_another_instruction_waits_for_stays(place: str) -> None:
    waiting = "waiting = f32[5]{0} negate(x), control-predecessors={slice.1}"
    assert uncut_operands_stay(fold(with_instruction(place, waiting)))


@pytest.mark.parametrize(
    "reader",
    [f"reader = {PART} negate(part.1)", "waiting = f32[5]{0} negate(x), control-predecessors={part.1}"],
    ids=["another user", "waiting"],
)
def test_a_part_of_the_result_that_is_used_behind_the_concatenation_stays(reader: str) -> None:
    run = fold(cut_module(last=reader))
    assert call_of(run) == f"{IN_PLACE}(x)"
    assert {*PARTS, "joined"} < set(run.after.names())


@pytest.mark.parametrize("root", ["slice.1", "part.1"])
def test_a_part_that_is_the_result_of_the_computation_stays(root: str) -> None:
    module = cut_module().replace("ROOT sum", "sum").replace(f"{root} = ", f"ROOT {root} = ")
    run = fold(module)
    assert root in run.after.names()
    assert uncut_operands_stay(run) == (root in SLICES)
    assert replaces_the_concatenation(run) == (root in SLICES)


@pytest.mark.parametrize("waiting", ["slice.1", "part.1"])
def test_a_part_that_waits_for_another_instruction_stays(waiting: str) -> None:
    module = cut_module()
    line = re.search(rf"^  {waiting} = .*$", module, re.M)
    assert line is not None
    run = fold(module.replace(line[0], f"{line[0]}, control-predecessors={{y}}"))
    assert run.after.instruction(waiting).endswith("control-predecessors={y}")


def test_the_call_waits_for_what_the_collective_waited_for() -> None:
    run = fold(cut_module(between="first = f32[5]{0} negate(y)", waits_for="first"))
    assert replaces_the_concatenation(run)
    assert "control-predecessors={first}" in run.after.instruction("op")


@pytest.mark.parametrize(
    "behind",
    ["waiting = f32[5]{0} negate(x), control-predecessors={op}", f"again = {PART} get-tuple-element(op), index=1"],
    ids=["waiting", "another user"],
)
def test_a_collective_with_another_user_keeps_its_place(behind: str) -> None:
    assert call_of(fold(cut_module(behind=behind))) == f"{IN_PLACE}(x)"


def test_a_concatenation_that_waits_for_another_instruction_stays() -> None:
    assert call_of(fold(cut_module(joined=JOINED + ", control-predecessors={x}"))) == f"{IN_PLACE}(x)"


# The call reads the array later than the slices did. An instruction that runs in between may have been given the
# array's buffer if its result has the array's size.
@pytest.mark.parametrize(
    "between",
    [
        "writer = f32[8,6]{1,0} negate(x)",
        "writer = f32[48]{0} negate(x)",
        "writer = (f32[3]{0}, f32[6,8]{1,0}) negate(x)",
        "writer = ((f32[3]{0})) negate(x)",
        "writer = f32[3]{0} while(y), condition=stop, body=step",
        "writer = f32[3]{0} conditional(flag, y, y), true_computation=step, false_computation=step",
        "writer = f32[3]{0} call(y), to_apply=step",
        "writer = ((f32[3]{0}), f32[3]{0}) async-start(y), calls=step",
    ],
)
def test_slices_stay_if_an_instruction_before_the_call_could_write_over_the_array(between: str) -> None:
    run = fold(cut_module(between=between))
    assert call_of(run) == f"{IN_PLACE}(cut, slice.1, slice.2, slice.3)"


def test_the_call_keeps_its_place_if_an_instruction_behind_it_could_write_over_the_array() -> None:
    run = fold(cut_module(behind="writer = f32[8,6]{1,0} negate(x)"))
    assert call_of(run) == f"{IN_PLACE}(x)"


def test_instructions_that_cannot_write_over_the_array_do_not_matter() -> None:
    run = fold(cut_module(between="small = f32[7,6]{1,0} negate(x)", behind="name = f32[48]{0} bitcast(x)"))
    assert replaces_the_concatenation(run)
    assert call_of(run) == f"{WHOLE} custom-call(x)"


def test_without_a_schedule_nothing_is_folded() -> None:
    run = fold(cut_module(scheduled=False))
    assert call_of(run) == f"{IN_PLACE}(cut, slice.1, slice.2, slice.3)"
