"""Ops that the rules look at only where they are listed, in the forms that XLA:GPU gives them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hlo_text import PassRun, run_pass
from test_listed_ops import OPS, PE_HALVES

from xla_shmem import _core

REACH_ALL = _core.gpu_transport({i: 0 for i in range(4)})
HALVES = "replica_groups={{0,1},{2,3}}"
GLOBAL = "use_global_device_ids=true"
CALL = "custom_call_has_side_effect=true"
FFI = "api_version=API_VERSION_TYPED_FFI"
SMALL, LARGE = "f32[4,2]{1,0}", "f32[8,2]{1,0}"
WORK = "work = f32[4] negate(n)"


@dataclasses.dataclass(frozen=True)
class Form:
    """A start/done pair.

    Attributes:
      target: name of the op in call targets.
      operands, result: shapes.
      op: the collective on the parameters q0, q1.
      start: shape and opcode of the start, where it is not a generic async-start.
      whole: name of the op in the target of one call, if not `target`.
    """

    target: str
    operands: tuple[str, ...]
    result: str
    op: str = ""
    start: str = ""
    whole: str = ""

    def module(self, between: str) -> str:
        """main(p0, p1, n) with the pair and the instructions `between` its halves."""
        shapes = ", ".join(self.operands)
        arguments = ", ".join(f"p{i}" for i in range(len(self.operands)))
        start = self.start or f"(({shapes}), {self.result}) async-start({arguments}), calls=async"
        inside = "\n".join(f"  q{i} = {shape} parameter({i})" for i, shape in enumerate(self.operands))
        wrapper = f"async {{\n{inside}\n  ROOT op = {self.result} {self.op}\n}}" if self.op else ""
        outside = "\n".join(f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(self.operands))
        done = f"{self.start.split('(p')[0].split()[-1].removesuffix('-start')}-done" if self.start else "async-done"
        return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
{wrapper}
ENTRY main {{
{outside}
  n = f32[4] parameter({len(self.operands)})
  start = {start}
  {between}
  ROOT done = {self.result} {done}(start)
}}
"""


def _gather(operands: str) -> str:
    return f"all-gather({operands}), channel_id=1, {HALVES}, {GLOBAL}, dimensions={{0}}"


FORMS = {
    "all-gather of jax 0.10.2": Form(
        "all_gather", (SMALL,), LARGE, start=f"({SMALL}, {LARGE}) all-gather-start(p0){_gather('')[12:]}"
    ),
    "combined all-gather of jax 0.10.2": Form(
        "all_gather",
        (SMALL, SMALL),
        f"({LARGE}, {LARGE})",
        start=f"(({SMALL}, {SMALL}), ({LARGE}, {LARGE})) all-gather-start(p0, p1){_gather('')[12:]}",
    ),
    "all-gather": Form("all_gather", (SMALL,), LARGE, _gather("q0")),
    "combined all-gather": Form("all_gather", (SMALL, SMALL), f"({LARGE}, {LARGE})", _gather("q0, q1")),
    "reduce-scatter": Form(
        "reduce_scatter",
        (LARGE,),
        SMALL,
        f"reduce-scatter(q0), channel_id=1, {HALVES}, {GLOBAL}, dimensions={{0}}, to_apply=add",
    ),
    "combined reduce-scatter": Form(
        "reduce_scatter",
        (LARGE, LARGE),
        f"({SMALL}, {SMALL})",
        f"reduce-scatter(q0, q1), channel_id=1, {HALVES}, {GLOBAL}, dimensions={{0}}, to_apply=add",
    ),
    "all-to-all": Form("all_to_all", (LARGE,), LARGE, f"all-to-all(q0), channel_id=1, {HALVES}, dimensions={{0}}"),
    "all-to-all of a tuple": Form(
        "all_to_all", (SMALL, SMALL), f"({SMALL}, {SMALL})", f"all-to-all(q0, q1), channel_id=1, {HALVES}"
    ),
    "collective-broadcast": Form(
        "broadcast", (SMALL,), SMALL, f"collective-broadcast(q0), channel_id=1, {HALVES}", whole="collective_broadcast"
    ),
}


def run_gpu(module: str, **options: Any) -> PassRun:
    """The pass for GPUs with every op listed."""
    return run_pass(module, "gpu", **{"ops": [(op, None) for op in OPS], "transport": REACH_ALL, **options})


@pytest.mark.parametrize("form", FORMS)
def test_a_pair_becomes_two_calls_and_the_done_keeps_the_operands(form: str) -> None:
    pair = FORMS[form]
    run = run_gpu(pair.module(WORK))
    assert run.veto() is None
    operands = ", ".join(f"p{i}" for i in range(len(pair.operands)))
    assert run.after.instruction("start") == (
        f'{pair.result} custom-call({operands}), custom_call_target="xla_shmem.{pair.target}_start", {CALL}, {FFI}'
    )
    shared = "{0}: (0, {0}), {1}: (0, {1})" if pair.result.startswith("(") else "{}: (0, {})"
    assert run.after.instruction("done") == (
        f'{pair.result} custom-call(start, {operands}), custom_call_target="xla_shmem.{pair.target}_done", {CALL}, '
        f"output_to_operand_aliasing={{{shared}}}, {FFI}"
    )
    assert run.after.instruction("work") == run.before.instruction("work")
    arguments = run.after.arguments("start")
    assert {key: arguments[key] for key in PE_HALVES} == PE_HALVES
    assert arguments.get("reduction") == ('"sum"' if pair.target == "reduce_scatter" else None)
    assert arguments == run.after.arguments("done")


@pytest.mark.parametrize("form", FORMS)
def test_a_pair_with_nothing_between_becomes_one_call(form: str) -> None:
    pair = FORMS[form]
    run = run_gpu(pair.module("b = f32[4] bitcast(n)"))
    operands = ", ".join(f"p{i}" for i in range(len(pair.operands)))
    assert run.after.instruction("start") == (
        f"{pair.result} custom-call({operands}), "
        f'custom_call_target="xla_shmem.{pair.whole or pair.target}", {CALL}, {FFI}'
    )
    assert run.after.instruction("done") == f"{pair.result} opt-barrier(start)"


@pytest.mark.parametrize("form", FORMS)
def test_an_op_that_is_not_listed_keeps_its_pair(form: str) -> None:
    run = run_gpu(FORMS[form].module(WORK), ops=[])
    for name in run.before.names():
        assert run.after.instruction(name) == run.before.instruction(name)


@pytest.mark.parametrize(
    ("form", "operand", "result", "dimension"),
    [
        ("all-gather", "f32[4,3]{1,0}", "f32[4,6]{1,0}", 1),
        ("reduce-scatter", "f32[4,6]{1,0}", "f32[4,3]{1,0}", 1),
        ("all-to-all", "f32[4,6]{1,0}", "f32[4,6]{1,0}", 1),
    ],
)
def test_parts_that_do_not_follow_one_another_in_memory_are_vetoed(
    form: str, operand: str, result: str, dimension: int
) -> None:
    op = FORMS[form].op.replace("dimensions={0}", f"dimensions={{{dimension}}}")
    run = run_gpu(dataclasses.replace(FORMS[form], operands=(operand,), result=result, op=op).module(WORK))
    assert "one after the other in memory" in (run.veto() or "")
    for name in run.before.names():
        assert run.after.instruction(name) == run.before.instruction(name)


def test_a_type_without_a_reduction_is_vetoed_where_the_op_reduces() -> None:
    pair = FORMS["reduce-scatter"]
    module = pair.module(WORK).replace("f32[", "f8e8m0fnu[")
    assert run_gpu(module).veto() == "no SHMEM reduce-scatter for f8e8m0fnu"
    assert run_gpu(FORMS["all-gather"].module(WORK).replace("f32[", "f8e8m0fnu[")).veto() is None


def test_a_broadcast_by_a_device_that_an_operand_names_is_vetoed() -> None:
    # jax 0.11.2 has such broadcasts. The parser of 0.10.2 does not know them; what tells them apart is the operand.
    op = f"collective-broadcast(q0, q1), channel_id=1, {HALVES}"
    pair = dataclasses.replace(FORMS["collective-broadcast"], operands=(SMALL, "s32[]"), op=op)
    assert run_gpu(pair.module(WORK)).veto() == "2 operands for 1 results"


def test_in_a_loop_one_call_is_the_usual_one() -> None:
    run = run_gpu(
        f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
body {{
  x = {SMALL} parameter(0)
  gathered = {LARGE} {_gather("x")}
  ROOT next = {SMALL} slice(gathered), slice={{[0:4], [0:2]}}
}}
condition {{
  c = {SMALL} parameter(0)
  ROOT more = pred[] constant(true)
}}
ENTRY main {{
  p = {SMALL} parameter(0)
  ROOT loop = {SMALL} while(p), condition=condition, body=body
}}
"""
    )
    assert run.after.target("gathered") == "xla_shmem.all_gather"


def test_an_all_to_all_of_slices_is_not_folded_on_gpu() -> None:
    # The handlers take either whole arrays or one array for each member, on both sides.
    run = run_gpu(
        f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
ENTRY main {{
  p = {LARGE} parameter(0)
  low = {SMALL} slice(p), slice={{[0:4], [0:2]}}
  high = {SMALL} slice(p), slice={{[4:8], [0:2]}}
  ROOT op = ({SMALL}, {SMALL}) all-to-all(low, high), channel_id=1, {HALVES}
}}
"""
    )
    assert run.after.instruction("op").startswith(f"({SMALL}, {SMALL}) custom-call(low, high)")
