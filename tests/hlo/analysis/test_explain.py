"""Explanations of a module's collectives: what it says, what the rules say, and what each rule saw."""

from __future__ import annotations

import pytest
from hlo_text import explain, run_pass

from xla_shmem import _core

SYNC = """
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  p = f32[1024]{0} parameter(0)
  ring = f32[1024]{0} collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT sums = f32[1024]{0} all-reduce(ring), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true,
    to_apply=add
}
"""

UNLISTED = """
HloModule jit_f, is_scheduled=true, num_partitions=4
xor { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] xor(a, b) }
ENTRY main {
  p = s32[8,3]{1,0} parameter(0)
  ag = s32[32,3]{1,0} all-gather(p), channel_id=1, replica_groups={{3,2,1,0}}, use_global_device_ids=true,
    dimensions={0}
  rs = s32[8,3]{1,0} reduce-scatter(ag), channel_id=1, replica_groups={{3,2,1,0}}, use_global_device_ids=true,
    dimensions={0}, to_apply=xor
  four = (s32[8,3]{1,0}, s32[8,3]{1,0}, s32[8,3]{1,0}, s32[8,3]{1,0}) all-to-all(p, rs, p, rs), channel_id=1,
    replica_groups={{3,2,1,0}}
  one = s32[32,3]{1,0} all-to-all(ag), channel_id=1, replica_groups={{3,2,1,0}}, dimensions={0}
  ROOT cb = s32[32,3]{1,0} collective-broadcast(one), channel_id=1, replica_groups={{3,2,1,0}}
}
"""

LOOP_AND_PAIR = """
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
body {
  p = f32[8]{0} parameter(0)
  ROOT ring = f32[8]{0} collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
cond { p = f32[8]{0} parameter(0)  ROOT c = pred[] constant(false) }
async_rs {
  p = f32[8]{0} parameter(0)
  ROOT rs = f32[2]{0} reduce-scatter(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true,
    dimensions={0}, to_apply=add
}
ENTRY main {
  p = f32[8]{0} parameter(0)
  w = f32[8]{0} while(p), condition=cond, body=body
  start = ((f32[8]{0}), f32[2]{0}) async-start(w), calls=async_rs
  ROOT done = f32[2]{0} async-done(start)
}
"""

ALL = [
    (op, None)
    for op in ("all-reduce", "collective-permute", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast")
]


@pytest.mark.parametrize(
    ("text", "ops"), [(SYNC, []), (UNLISTED, []), (UNLISTED, ALL), (LOOP_AND_PAIR, []), (LOOP_AND_PAIR, ALL)]
)
def test_the_explanation_decides_as_the_pass_does(text: str, ops: list[tuple[str, None]]) -> None:
    run = run_pass(text, ops=ops)
    explanations = explain(run.before.proto, ops=ops)
    assert [e["decided"] for e in explanations] == list(run.records.values())
    assert all(e["trace"] for e in explanations)


@pytest.mark.parametrize(
    ("text", "ops"), [(SYNC, []), (UNLISTED, []), (UNLISTED, ALL), (LOOP_AND_PAIR, []), (LOOP_AND_PAIR, ALL)]
)
def test_a_rewritten_collective_is_explained_as_before_it_was_rewritten(text: str, ops: list[tuple[str, None]]) -> None:
    run = run_pass(text, ops=ops)
    before, after = explain(run.before.proto, ops=ops), explain(run.after.proto, ops=ops)
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert new["decided"]["reason"] == old["decided"]["reason"]
        assert new["decided"]["lowered"] == old["decided"]["lowered"]
        assert (new["groups"], new["pairs"]) == (old["groups"], old["pairs"])


def test_groups_and_pairs_are_given_in_devices() -> None:
    ring, sums = explain(run_pass(SYNC).after.proto)
    assert ring["pairs"] == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert sums["groups"] == [[0, 1], [2, 3]]


def test_what_the_module_says_stays_whatever_the_options_say_now() -> None:
    _, sums = explain(run_pass(SYNC).after.proto, threshold=0)
    assert sums["written"]["lowered"] == "NVSHMEM"
    assert (sums["decided"]["lowered"], sums["decided"]["rule"]) == ("DEFAULT", "size")


def test_a_rewritten_collective_with_a_pe_that_the_topology_lacks_has_no_trace() -> None:
    rewritten = run_pass(SYNC).after.proto
    two_devices = _core.Topology([(0, 0, 0, 0, 0), (1, 0, 0, 0, 1)])
    for explanation in explain(rewritten, topology=two_devices):
        assert explanation["trace"] == []
        assert explanation["decided"]["reason"] == explanation["written"]["reason"]
