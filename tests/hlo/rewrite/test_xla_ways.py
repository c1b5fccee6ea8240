"""The pass makes XLA:GPU run collectives in other ways: NCCL for its own kernel, and one-sided all-gathers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hlo_text import PassRun, explain, run_pass
from reference_proto import decode
from test_fusions import ALONE, FLAT, SUM, synchronous

from xla_shmem import _core

ONE_PROCESS = _core.Topology([(i, 0, 0, 0, i) for i in range(4)])
SLOW, FAST = (50.0, 49.0, 51.0), (5.0, 4.0, 6.0)
SETTABLE = ("nccl", "one-sided")
MODE = "COLLECTIVES_SYMMETRIC_MEMORY"


def tuned(op: str, way: str, **other: Any) -> dict[str, Any]:
    """Options by which `way` is the fastest, in a job of one process."""
    table = _core.TuningTable([(op, "f32", 4, 32, SLOW, SLOW, 1, {way: FAST})])
    return {"topology": ONE_PROCESS, "profile": "tuned", "tuning": table, "settable": SETTABLE, **other}


def test_an_all_reduce_of_xlas_kernel_goes_back_to_nccl_in_the_place_of_its_fusion() -> None:
    run = run_pass(ALONE, "gpu", **tuned("all-reduce", "nccl"))
    (record,) = run.records.values()
    assert (record["lowered"], record["rule"], record["chosen_way"]) == ("DEFAULT", "tuned", "NCCL")
    assert record["kernel"] is None
    assert "calls=fused" not in run.after.text
    assert run.after.names() == run.before.names()
    assert run.after.instruction("start").startswith(
        f"(({FLAT}), {FLAT}) all-reduce-start(flat), channel_id=1, replica_groups={{{{0,1,2,3}}}}"
    )
    assert run.after.attributes("start") == {"mine": "kept"} | run.after.attributes("done")
    assert run.after.attributes("done")["way"] == "NCCL"
    (explained,) = explain(run.after.proto, "gpu", **tuned("all-reduce", "nccl"))
    assert explained["decided"]["chosen_way"] == "NCCL"


def test_so_does_one_without_a_pair() -> None:
    text = synchronous(f"ROOT sum = {FLAT} all-reduce(f), {SUM}").replace(
        "calls=fused", "calls=fused, control-predecessors={p}"
    )
    run = run_pass(text, "gpu", **tuned("all-reduce", "nccl"))
    assert [record["chosen_way"] for record in run.records.values()] == ["NCCL"]
    assert " fusion(" not in run.after.text
    assert "control-predecessors={p}" in run.after.text
    computations = [computation.name for computation in decode(run.after.proto).computations]
    assert "fused" in [computation.name for computation in decode(run.before.proto).computations]
    assert "fused" not in computations


def test_a_fusion_that_does_more_stays() -> None:
    fused = f"m = {FLAT} multiply(f, f)\n  ROOT sum = {FLAT} all-reduce(m), {SUM}"
    run = run_pass(synchronous(fused), "gpu", **tuned("all-reduce", "nccl"))
    assert [record["chosen_way"] for record in run.records.values()] == [None]


SMALL = "f32[2]{0}"
GATHER = "channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true"
CONFIG = '"collective_backend_config":{"is_sync":false,"collectives_mode":"COLLECTIVES_MODE_INVALID"}'
FUSION = "kind=kLoop, calls=work"


def gathers(operand: str = f"fusion(p), {FUSION}", reads: str = f"fusion(done), {FUSION}4", root: str = "used") -> str:
    """An all-gather as a pair, as jax 0.12.0.1 writes it; its operand, and what reads its result."""
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
work {{ w = {SMALL} parameter(0)  ROOT n = {SMALL} negate(w) }}
work4 {{ w = {FLAT} parameter(0)  ROOT n = {FLAT} negate(w) }}
async {{
  q = {SMALL} parameter(0)
  ROOT gather = {FLAT} all-gather(q), {GATHER}
}}
ENTRY main {{
  p = {SMALL} parameter(0)
  made = {SMALL} {operand}
  start = (({SMALL}), {FLAT}) async-start(made), calls=async, backend_config={{{CONFIG}}}
  done = {FLAT} async-done(start)
  used = {FLAT} {reads}
  ROOT result = ({FLAT}) tuple({root})
}}
"""


def mode_of(run: PassRun, name: str) -> str:
    (config,) = (
        i.backend_config for c in decode(run.after.proto).computations for i in c.instructions if i.name == name
    )
    mode: str = json.loads(config)["collective_backend_config"]["collectives_mode"]
    return mode


def test_an_all_gather_gets_the_mode_and_needs_no_copy_between_fusions() -> None:
    run = run_pass(gathers(), "gpu", **tuned("all-gather", "one-sided"))
    (record,) = run.records.values()
    assert (record["lowered"], record["chosen_way"], record["mode"]) == ("DEFAULT", "one-sided", "symmetric")
    assert mode_of(run, "gather") == mode_of(run, "start") == MODE
    assert run.after.names() == run.before.names()


@pytest.mark.parametrize(
    ("operand", "what"),
    [
        ("bitcast(p)", "a parameter's"),
        ("opt-barrier(p)", "a value's of a loop, or such"),
        ('custom-call(p), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})}', "its own operand's"),
    ],
)
def test_an_operand_that_may_lie_in_a_buffer_of_another_value_is_copied(operand: str, what: str) -> None:
    run = run_pass(gathers(operand), "gpu", **tuned("all-gather", "one-sided"))
    assert run.after.names() == ["p", "made", "start.operand", "start", "done", "used", "result"], what
    assert run.after.instruction("start.operand") == f"{SMALL} copy(made)"
    assert run.after.instruction("start").startswith(f"(({SMALL}), {FLAT}) all-gather-start(start.operand)")


def test_an_operand_that_is_also_a_result_is_copied() -> None:
    text = gathers().replace("ROOT result", f"kept = ({SMALL}) tuple(made)\n  ROOT result")
    run = run_pass(text, "gpu", **tuned("all-gather", "one-sided"))
    assert "start.operand" in run.after.names()


@pytest.mark.parametrize(("reads", "root"), [("bitcast(done)", "used"), (f"fusion(done), {FUSION}4", "done")])
def test_a_result_that_may_share_its_buffer_is_copied_for_all_its_readers(reads: str, root: str) -> None:
    run = run_pass(gathers(reads=reads, root=root), "gpu", **tuned("all-gather", "one-sided"))
    assert run.after.names() == ["p", "made", "start", "done", "done.result", "used", "result"]
    assert run.after.instruction("done.result") == f"{FLAT} copy(done)"
    assert run.after.instruction("done").startswith(f"{FLAT} all-gather-done(start)")


def test_one_without_a_pair_is_copied_too() -> None:
    text = f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
ENTRY main {{
  p = {SMALL} parameter(0)
  ROOT gather = {FLAT} all-gather(p), {GATHER}
}}
"""
    run = run_pass(text, "gpu", **tuned("all-gather", "one-sided"))
    assert run.after.names() == ["p", "gather.operand", "gather", "gather.result"]
    assert mode_of(run, "gather") == MODE


def test_a_combined_one_stays_and_says_why() -> None:
    text = f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
ENTRY main {{
  p = {SMALL} parameter(0)
  q = {SMALL} parameter(1)
  ROOT gather = ({FLAT}, {FLAT}) all-gather(p, q), {GATHER}
}}
"""
    run = run_pass(text, "gpu", **tuned("all-gather", "one-sided"))
    (record,) = run.records.values()
    assert (record["chosen_way"], record["veto"]) == (None, "it is combined")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"settable": ()}, "one-sided 5.0 µs, but only --xla_gpu_all_gather_mode=symmetric chooses it"),
        ({"backends": ("nvshmem", "nccl")}, None),
    ],
)
def test_a_way_that_cannot_be_set_or_is_not_listed_is_not_chosen(options: dict[str, Any], why: str | None) -> None:
    run = run_pass(gathers(), "gpu", **tuned("all-gather", "one-sided", **options))
    (record,) = run.records.values()
    assert record["chosen_way"] is None
    assert ("one-sided" in record["reason"]) == (why is not None)
    assert why is None or why in record["reason"]
    assert MODE not in run.after.text


@pytest.mark.parametrize("lowering", ["cpu", "none"])
def test_other_platforms_change_nothing(lowering: str) -> None:
    run = run_pass(gathers(), lowering, **tuned("all-gather", "one-sided"))
    assert MODE not in run.after.text
