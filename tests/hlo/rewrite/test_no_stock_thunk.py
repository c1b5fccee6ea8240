"""What XLA:CPU has no thunk for goes to SHMEM without being listed; XLA says that it has none only after the hook."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_text import PassRun, explain, run_pass, to_proto
from test_listed_ops import HALVES

from xla_shmem import _core

NUMBERS = ", ".join(["numbers"] * 4)
BROADCAST = f"s32[8]{{0}} collective-broadcast(p), channel_id=1, replica_groups={HALVES}"
RAGGED = f"s32[8]{{0}} ragged-all-to-all(p, output, {NUMBERS}), channel_id=1, replica_groups={HALVES}"
XOR = f"s32[8]{{0}} all-reduce(p), channel_id=1, replica_groups={HALVES}, use_global_device_ids=true, to_apply=combine"
SCATTER = f"s32[4]{{0}} reduce-scatter(p), {XOR.split(', ', 1)[1]}, dimensions={{0}}"
REASONS = {
    BROADCAST: "XLA:CPU has no thunk for collective-broadcast",
    RAGGED: "XLA:CPU has no thunk for ragged-all-to-all",
    XOR: 'XLA:CPU has no reduction "xor" for s32',
    SCATTER: 'XLA:CPU has no reduction "xor" for s32',
}


def module_with(op: str) -> str:
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
combine {{ a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] xor(a, b) }}
ENTRY main {{
  p = s32[8]{{0}} parameter(0)
  numbers = s32[2]{{0}} parameter(1)
  output = s32[8]{{0}} copy(p)
  ROOT op = {op}
}}
"""


def run(op: str, lowering: str = "cpu", **options: Any) -> PassRun:
    return run_pass(module_with(op), lowering, **options)


@pytest.mark.parametrize("op", REASONS)
@pytest.mark.parametrize(
    "options",
    [{}, {"profile": "domain"}, {"profile": "tuned"}, {"threshold": 0}, {"ops": [("all-gather", None)]}],
    ids=str,
)
def test_it_is_moved_whatever_the_options(op: str, options: dict[str, Any]) -> None:
    moved = run(op, **options)
    assert moved.veto() is None
    assert (moved.records["op"]["rule"], moved.records["op"]["reason"]) == ("no-stock-thunk", REASONS[op])
    assert moved.after.target("op").startswith("xla_shmem.")


def test_a_limit_of_its_size_does_not_hold() -> None:
    assert run(BROADCAST, ops=[("collective-broadcast", 4)]).records["op"]["lowered"] == "NVSHMEM"


@pytest.mark.parametrize("op", REASONS)
def test_it_stays_with_the_reason_where_shmem_cannot_carry_it(op: str) -> None:
    apart = _core.cpu_transport({i: i for i in range(4)})
    stays = run(op, transport=apart)
    out_of_reach = "device 1 (PE 2, host 0) is out of reach of device 0 (PE 3, host 0)"
    assert (stays.veto() or "").startswith(f"{out_of_reach}; not divided: ")
    assert stays.records["op"]["rule"] == "no-stock-thunk"
    assert stays.after.attributes("op")["veto"] == stays.veto()


@pytest.mark.parametrize("op", REASONS)
def test_xla_gpu_has_the_thunks(op: str) -> None:
    record = run(op, "gpu", ops=[("all-gather", None)]).records["op"]
    assert (record["rule"], record["lowered"]) == ("unconsidered-op", "DEFAULT")


@pytest.mark.parametrize("is_rewritten", [False, True])
@pytest.mark.parametrize("op", REASONS)
def test_explain_lists_the_rule_before_placement(op: str, is_rewritten: bool) -> None:
    module = run(op).after.proto if is_rewritten else to_proto(module_with(op))
    (explanation,) = explain(module)
    assert explanation["decided"]["rule"] == "no-stock-thunk"
    verdicts = {step["rule"]: (step["evidence"], step["verdict"]) for step in explanation["trace"]}
    assert verdicts["no-stock-thunk"] == (REASONS[op], "NVSHMEM")
    assert verdicts["single-device"] == ("", "not asked")
    assert verdicts["transport"][1] == "passed"
    order = list(verdicts)
    assert order.index("unknown-device") + 1 == order.index("no-stock-thunk") == order.index("single-device") - 1


def test_explain_does_not_list_the_rule_for_what_xla_can_run() -> None:
    (explanation,) = explain(to_proto(module_with(XOR).replace("xor(a, b)", "add(a, b)")))
    assert "no-stock-thunk" not in [step["rule"] for step in explanation["trace"]]
