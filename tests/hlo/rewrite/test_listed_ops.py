"""Ops that the rules look at only where they are listed: what the pass reads of them and writes in their place."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_text import PassRun, run_pass

OPS = (
    "all-reduce",
    "collective-permute",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-broadcast",
    "ragged-all-to-all",
)
HALVES = "{{0,1},{2,3}}"
GLOBAL = "use_global_device_ids=true"
# In PEs: PE = 3 - device id.
PE_HALVES = {"group_offsets": "array<i64: 0, 2, 4>", "groups": "array<i64: 3, 2, 1, 0>"}


def module_with(op: str, first: str = "f32[8]{0}", second: str = "f32[8]{0}") -> str:
    """main() with one collective `op` on the parameters p0 and p1."""
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  p0 = {first} parameter(0)
  p1 = {second} parameter(1)
  ROOT op = {op}
}}
"""


def all_gather(result: str, dimension: int = 0, groups: str = HALVES) -> str:
    return f"{result} all-gather(p0), channel_id=1, replica_groups={groups}, {GLOBAL}, dimensions={{{dimension}}}"


def reduce_scatter(result: str, dimension: int = 0) -> str:
    return (
        f"{result} reduce-scatter(p0), channel_id=1, replica_groups={HALVES}, {GLOBAL}, "
        f"dimensions={{{dimension}}}, to_apply=add"
    )


def all_to_all(result: str, operands: str, extra: str = "") -> str:
    return f"{result} all-to-all({operands}), channel_id=1, replica_groups={HALVES}{extra}"


def broadcast(shape: str) -> str:
    return f"{shape} collective-broadcast(p0), channel_id=1, replica_groups={HALVES}"


def run_listed(module: str, lowering: str = "cpu", **options: Any) -> PassRun:
    """The pass with every op listed."""
    return run_pass(module, lowering, ops=[(op, None) for op in OPS], **options)


SMALL = "f32[4,2]{1,0}"


@pytest.mark.parametrize(
    ("op", "result", "operands", "target"),
    [
        (all_gather("f32[8,2]{1,0}"), "f32[8,2]{1,0}", "p0", "all_gather"),
        (all_to_all(f"({SMALL}, {SMALL})", "p0, p1"), f"({SMALL}, {SMALL})", "p0, p1", "all_to_all"),
        (all_to_all(SMALL, "p0", ", dimensions={0}"), SMALL, "p0", "all_to_all"),
        (broadcast(SMALL), SMALL, "p0", "collective_broadcast"),
    ],
)
def test_ops_that_move_bytes_carry_their_groups_in_pes_and_no_reduction(
    op: str, result: str, operands: str, target: str
) -> None:
    after = run_listed(module_with(op, SMALL, SMALL)).after
    assert after.instruction("op") == (
        f'{result} custom-call({operands}), custom_call_target="xla_shmem.{target}", '
        "custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI"
    )
    arguments = after.arguments("op")
    assert {key: arguments[key] for key in PE_HALVES} == PE_HALVES
    assert "reduction" not in arguments


def test_a_reduce_scatter_carries_its_reduction_and_is_recorded_with_it() -> None:
    run = run_listed(module_with(reduce_scatter("f32[4]{0}")))
    assert run.after.instruction("op") == (
        'f32[4]{0} custom-call(p0), custom_call_target="xla_shmem.reduce_scatter", '
        "custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI"
    )
    arguments = run.after.arguments("op")
    assert arguments["reduction"] == '"sum"'
    assert {key: arguments[key] for key in PE_HALVES} == PE_HALVES
    assert (run.records["op"]["reduction"], run.records["op"]["bytes"]) == ("sum", 16)


def test_an_op_that_is_not_considered_is_not_touched() -> None:
    run = run_pass(module_with(all_gather("f32[16]{0}")))
    assert not run.changed
    assert run.records["op"]["rule"] == "unconsidered-op"


def test_where_ops_are_listed_all_others_are_not_touched() -> None:
    run = run_pass(module_with(all_gather("f32[16]{0}")), ops=[("reduce-scatter", None)])
    assert not run.changed
    assert run.records["op"]["reason"] == "all-gather is not listed in XLA_SHMEM_OPS"


@pytest.mark.parametrize(
    "op",
    [
        "f32[8]{0} collective-permute(p0), channel_id=1, source_target_pairs={{0,1},{1,0}}",
        f"f32[8]{{0}} all-reduce(p0), channel_id=1, replica_groups={HALVES}, {GLOBAL}, to_apply=add",
    ],
)
def test_where_ops_are_listed_the_published_two_have_to_be_listed_too(op: str) -> None:
    run = run_pass(module_with(op), ops=[("reduce-scatter", None)])
    assert not run.changed
    assert run.records["op"]["rule"] == "unconsidered-op"


@pytest.mark.parametrize(
    ("operand", "result", "dimension"),
    [
        ("f32[4,3]{1,0}", "f32[8,3]{1,0}", 0),
        ("f32[4,3]{0,1}", "f32[4,6]{0,1}", 1),
        # Dimensions of size 1 may stand anywhere.
        ("f32[5,1,3]{2,1,0}", "f32[5,2,3]{2,0,1}", 1),
        ("f32[1,1]{1,0}", "f32[1,2]{1,0}", 1),
    ],
)
def test_an_all_gather_along_the_most_major_dimension_is_carried(operand: str, result: str, dimension: int) -> None:
    assert run_listed(module_with(all_gather(result, dimension), operand)).veto() is None


@pytest.mark.parametrize(
    ("operand", "result", "dimension"),
    [
        ("f32[4,3]{1,0}", "f32[4,6]{1,0}", 1),
        ("f32[4,3]{0,1}", "f32[8,3]{1,0}", 0),
        ("f32[4,3]{1,0}", "f32[8,4]{1,0}", 0),
        ("f32[4,3]{1,0}", "f32[16,3]{1,0}", 0),
        ("f32[4,3]{1,0}", "f32[8,3]{1,0}", 7),
        ("s32[4,3]{1,0}", "f32[8,3]{1,0}", 0),
    ],
)
def test_any_other_all_gather_is_vetoed(operand: str, result: str, dimension: int) -> None:
    assert run_listed(module_with(all_gather(result, dimension), operand)).veto() == (
        "result 0 is not the operands of 2 devices one after the other in memory"
    )


@pytest.mark.parametrize(
    ("operand", "result", "dimension"),
    [("f32[8,3]{1,0}", "f32[4,3]{1,0}", 0), ("f32[4,6]{0,1}", "f32[4,3]{0,1}", 1)],
)
def test_a_reduce_scatter_along_the_most_major_dimension_is_carried(operand: str, result: str, dimension: int) -> None:
    assert run_listed(module_with(reduce_scatter(result, dimension), operand)).veto() is None


def test_any_other_reduce_scatter_is_vetoed() -> None:
    assert run_listed(module_with(reduce_scatter("f32[4,3]{1,0}", 1), "f32[4,6]{1,0}")).veto() == (
        "operand 0 is not the results of 2 devices one after the other in memory"
    )


ARRAY, ODD = "f32[4,6]{1,0}", "f32[5,6]{1,0}"


def test_an_all_to_all_of_one_array_along_the_most_major_dimension_is_carried() -> None:
    assert run_listed(module_with(all_to_all(ARRAY, "p0", ", dimensions={0}"), ARRAY)).veto() is None


@pytest.mark.parametrize(("array", "dimensions"), [(ARRAY, ", dimensions={1}"), (ODD, ", dimensions={0}"), (ARRAY, "")])
def test_any_other_all_to_all_of_one_array_is_vetoed(array: str, dimensions: str) -> None:
    assert run_listed(module_with(all_to_all(array, "p0", dimensions), array)).veto() == (
        "its array is not 2 equal parts one after the other in memory"
    )


@pytest.mark.parametrize("result", [f"({ARRAY}, {ARRAY})", f"({ARRAY}, {ODD})"])
def test_the_arrays_of_an_all_to_all_of_a_tuple_have_to_be_alike(result: str) -> None:
    assert run_listed(module_with(all_to_all(result, "p0, p1"), ARRAY, ODD)).veto() == (
        "operand and result 1 are not alike, or not like the others"
    )


def test_an_all_to_all_of_a_tuple_has_one_array_for_each_member() -> None:
    op = all_to_all(f"({ARRAY}, {ARRAY}, {ARRAY})", "p0, p1, p1")
    assert run_listed(module_with(op, ARRAY, ARRAY)).veto() == "3 operands for groups of 2"


def test_groups_of_several_sizes_have_no_common_shape() -> None:
    op = all_gather("f32[16]{0}", groups="{{0,1},{2},{3}}")
    assert run_listed(module_with(op)).veto() == "its replica groups differ in size"
