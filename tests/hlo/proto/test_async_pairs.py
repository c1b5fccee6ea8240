"""Generic async-start/async-done pairs around a collective, as newer releases of XLA:GPU write them."""

from __future__ import annotations

import pytest
from hlo_text import HloModule, inspect, run_pass, to_proto
from reference_proto import decode

A = "f32[256]{0}"
RING = "channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
PERMUTE = f"{A} collective-permute(q), {RING}"
ALL_REDUCE = (
    f"{A} all-reduce(q), channel_id=1, replica_groups={{{{0,1,2,3}}}}, use_global_device_ids=true, to_apply=add"
)
START = f"(({A}), {A}) async-start(p), calls=async"
DONE = f"{A} async-done(start)"
CALL = "custom_call_has_side_effect=true"
FFI = "api_version=API_VERSION_TYPED_FFI"

# A permute with work beside it, a combined all-reduce in place with work beside it, and an all-reduce with none.
WRAPPED = f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
async_cp {{
  q = {A} parameter(0)
  ROOT ppermute = {PERMUTE}
}}
async_ar {{
  q0 = {A} parameter(0)
  q1 = {A} parameter(1)
  ROOT psum = ({A}, {A}) all-reduce(q0, q1), channel_id=1, replica_groups={{{{0,1}},{{2,3}}}},
    use_global_device_ids=true, to_apply=add
}}
async_ar1 {{
  q = {A} parameter(0)
  ROOT psum1 = {A} all-reduce(q), channel_id=1, replica_groups={{{{0,1}},{{2,3}}}}, use_global_device_ids=true,
    to_apply=add
}}
ENTRY main {{
  p0 = {A} parameter(0)
  p1 = {A} parameter(1)
  cp-start = (({A}), {A}) async-start(p0), calls=async_cp, async_execution_thread="collectives",
    frontend_attributes={{mine="kept"}}
  ar-start = (({A}, {A}), ({A}, {A})) async-start(p0, p1), calls=async_ar,
    output_to_operand_aliasing={{{{1,0}}: (0, {{}}), {{1,1}}: (1, {{}})}}
  work = {A} add(p0, p1)
  cp-done = {A} async-done(cp-start)
  ar-done = ({A}, {A}) async-done(ar-start)
  ar1-start = (({A}), {A}) async-start(work), calls=async_ar1, output_to_operand_aliasing={{{{1}}: (0, {{}})}}
  first = {A} get-tuple-element(ar-done), index=0
  ar1-done = {A} async-done(ar1-start)
  ROOT t = ({A}, {A}, {A}) tuple(cp-done, first, ar1-done)
}}
"""


def module_with_pair(
    op: str = PERMUTE, start: str = START, between: str = "", done: str = DONE, scheduled: bool = True
) -> str:
    """main(p) with a wrapped `op` behind `start`, and the instructions `between` it and its done."""
    return f"""
HloModule jit_f, {"is_scheduled=true, " if scheduled else ""}num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
int_add {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] add(a, b) }}
count {{ c = s32[] parameter(0)  ROOT next = s32[] add(c, c) }}
sum_of_many {{
  c = s32[] parameter(0)
  many = s32[4096]{{0}} broadcast(c), dimensions={{}}
  ROOT sum = s32[] reduce(many, c), dimensions={{0}}, to_apply=int_add
}}
async {{
  q = {A} parameter(0)
  ROOT op = {op}
}}
ENTRY main {{
  p = {A} parameter(0)
  start = {start}
  {between}
  ROOT done = {done}
}}
"""


WORK = f"work = {A} negate(p)"
BITCAST = f"b = {A} bitcast(p)"
COUNTER = "one = s32[] constant(1)  two = s32[] add(one, one)"
FUSED_COUNTER = "one = s32[] constant(1)  two = s32[] fusion(one), kind=kLoop, calls=count"
# A number, but not from numbers.
SUM = "zero = f32[] constant(0)  sum = f32[] reduce(p, zero), dimensions={0}, to_apply=add"
FUSED_SUM = "one = s32[] constant(1)  many = s32[] fusion(one), kind=kLoop, calls=sum_of_many"


def test_a_generic_permute_pair_becomes_the_same_calls_as_a_native_one() -> None:
    after = run_pass(WRAPPED, "gpu").after
    assert after.instruction("cp-start") == (
        f'{A} custom-call(p0), custom_call_target="xla_shmem.permute_start", {CALL}, {FFI}'
    )
    assert after.instruction("cp-done") == (
        f'{A} custom-call(cp-start, p0), custom_call_target="xla_shmem.permute_done", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (0, {{}})}}, {FFI}"
    )
    assert after.attributes("cp-start")["mine"] == "kept"
    assert after.arguments("cp-start") == after.arguments("cp-done")
    assert after.arguments("cp-start")["pairs"] == "array<i64: 3, 2, 2, 1, 1, 0, 0, 3>"


def test_a_call_has_no_execution_thread() -> None:
    after = decode(run_pass(WRAPPED, "gpu").after.proto)
    (start,) = (i for c in after.computations for i in c.instructions if i.name == "cp-start")
    assert start.async_execution_thread == ""


def test_a_generic_pair_is_one_record_at_the_place_of_its_start() -> None:
    records = run_pass(WRAPPED, "gpu").records
    assert {name: (r["computation"], r["bytes"]) for name, r in records.items()} == {
        "cp-start": ("main", 1024),
        "ar-start": ("main", 2048),
        "ar1-start": ("main", 1024),
    }


def test_a_combined_generic_pair_keeps_the_buffers_that_xla_had_it_share() -> None:
    after = run_pass(WRAPPED, "gpu").after
    assert after.instruction("ar-start") == (
        f'({A}, {A}) custom-call(p0, p1), custom_call_target="xla_shmem.all_reduce_start", {CALL}, '
        f"output_to_operand_aliasing={{{{0}}: (0, {{}}), {{1}}: (1, {{}})}}, {FFI}"
    )
    assert after.instruction("ar-done").startswith(f"({A}, {A}) custom-call(ar-start), ")


def test_operands_of_a_generic_all_reduce_that_is_not_in_place_live_until_the_done() -> None:
    after = run_pass(module_with_pair(ALL_REDUCE, between=WORK), "gpu").after
    assert "output_to_operand_aliasing" not in after.instruction("start")
    assert after.instruction("done").startswith(f"{A} custom-call(start, p), ")


def test_a_pair_with_nothing_to_overlap_becomes_one_call_and_a_barrier_that_xla_removes() -> None:
    after = run_pass(WRAPPED, "gpu").after
    assert after.instruction("ar1-start") == (
        f'{A} custom-call(work), custom_call_target="xla_shmem.all_reduce", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (0, {{}})}}, {FFI}"
    )
    assert after.instruction("ar1-done") == f"{A} opt-barrier(ar1-start)"
    assert after.attributes("ar1-done")["lowered"] == "NVSHMEM"


@pytest.mark.parametrize("between", ["", BITCAST, COUNTER, FUSED_COUNTER])
def test_a_pair_without_work_between_start_and_done_becomes_one_call(between: str) -> None:
    after = run_pass(module_with_pair(between=between), "gpu").after
    assert after.target("start") == "xla_shmem.collective_permute"


@pytest.mark.parametrize(
    "module",
    [
        module_with_pair(between=f"{BITCAST}\n  {WORK}"),
        module_with_pair(between=f"{COUNTER}\n  {WORK}"),
        module_with_pair(between=SUM),
        module_with_pair(between=FUSED_SUM),
        module_with_pair(done=DONE + ", control-predecessors={p}"),
        module_with_pair(scheduled=False),
    ],
    ids=[
        "work",
        "work behind a counter",
        "a number from an array",
        "a number from an array of the fusion",
        "the done waits for another instruction",
        "no schedule",
    ],
)
def test_a_pair_that_may_have_work_between_start_and_done_stays_a_pair(module: str) -> None:
    assert run_pass(module, "gpu").after.target("start") == "xla_shmem.permute_start"


def test_a_native_pair_with_nothing_to_overlap_becomes_one_call_and_a_barrier() -> None:
    after = run_pass(
        f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
ENTRY main {{
  p = {A} parameter(0)
  start = ({A}, {A}) collective-permute-start(p), {RING}
  ROOT done = {A} collective-permute-done(start)
}}
""",
        "gpu",
    ).after
    assert after.instruction("start") == (
        f'{A} custom-call(p), custom_call_target="xla_shmem.collective_permute", {CALL}, {FFI}'
    )
    assert after.instruction("done") == f"{A} opt-barrier(start)"


def test_a_generic_pair_on_default_gains_attributes_on_op_start_and_done_and_nothing_else() -> None:
    run = run_pass(module_with_pair(ALL_REDUCE, between=WORK), "gpu", threshold=1024)
    before, after = decode(run.before.proto), decode(run.after.proto)
    changed = set()
    for old, new in zip(before.computations, after.computations, strict=True):
        for old_instruction, instruction in zip(old.instructions, new.instructions, strict=True):
            if instruction != old_instruction:
                changed.add(instruction.name)
                assert run.after.attributes(instruction.name)["rule"] == "size"
                instruction.ClearField("frontend_attributes")
                old_instruction.ClearField("frontend_attributes")
    assert changed == {"op", "start", "done"}
    assert before == after


def veto_of(module: str) -> str | None:
    return run_pass(module, "gpu").veto()


def test_a_pair_around_nothing_but_its_collective_is_carried() -> None:
    assert veto_of(module_with_pair()) is None


MORE = "its async computation holds more than the collective"


def test_an_async_computation_with_an_unused_parameter_is_vetoed() -> None:
    module = module_with_pair(start=f"(({A}, {A}), {A}) async-start(p, p), calls=async")
    assert veto_of(module.replace("ROOT op", f"unused = {A} parameter(1)\n  ROOT op")) == MORE


def test_an_async_computation_that_does_more_is_vetoed() -> None:
    module = module_with_pair().replace(f"ROOT op = {PERMUTE}", f"op = {PERMUTE}\n  ROOT after = {A} negate(op)")
    assert veto_of(module) == MORE


@pytest.mark.parametrize("aliasing", ["{0,0}: (0, {})", "{1}: (0, {0})"])
def test_a_start_that_shares_other_buffers_is_vetoed(aliasing: str) -> None:
    module = module_with_pair(start=f"{START}, output_to_operand_aliasing={{{aliasing}}}")
    assert veto_of(module) == "its start shares buffers in a way that is not known here"


def test_a_start_and_a_done_of_different_shapes_are_vetoed() -> None:
    assert veto_of(module_with_pair(done=DONE.replace("256", "128"))) == "its start and done differ in shape"


def test_a_start_that_is_updated_before_its_done_is_vetoed() -> None:
    module = module_with_pair(between=f"update = (({A}), {A}) async-update(start)", done=f"{A} async-done(update)")
    assert veto_of(module) == "its start is not used by exactly one done in the same computation"


@pytest.mark.parametrize("reader", [f"also = {A} get-tuple-element(start), index=1", f"again = {DONE}"])
@pytest.mark.parametrize("behind", [False, True])
def test_a_start_that_is_used_beside_its_done_is_vetoed(reader: str, behind: bool) -> None:
    done = f"ROOT done = {DONE}"
    module = module_with_pair().replace(done, f"{done}\n  {reader}" if behind else f"{reader}\n  {done}")
    assert veto_of(module) == "its start is not used by exactly one done in the same computation"


def test_pairs_are_not_lowered_for_cpu() -> None:
    records = run_pass(WRAPPED).records
    assert {r["veto"] for r in records.values()} == {"start/done pairs are lowered for GPU only"}


def test_a_computation_that_nothing_calls_holds_no_collective_of_the_module() -> None:
    module = f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
dead {{
  q = {A} parameter(0)
  ROOT op = {PERMUTE}
}}
ENTRY main {{ ROOT p = {A} parameter(0) }}
"""
    assert "dead" in HloModule(to_proto(module)).text
    assert inspect(module) == []
    assert not run_pass(module, "gpu").changed
