"""The calls that XLA puts into command buffers (CUDA graphs)."""

from __future__ import annotations

import pytest
from compiler_runs import Run


@pytest.mark.parametrize("program", ["permute_alone", "psum_alone"])
def test_a_whole_transfer_is_captured(captured: Run, program: str) -> None:
    module = captured.dump[program]
    (call,) = [thunk for thunk in module.final_thunks if thunk.kind == "kCustomCall"]
    assert call.inside == "kCommandBuffer"


@pytest.mark.parametrize("program", ["permute_overlap", "permute_scan"])
def test_an_overlapping_pair_stays_outside_and_the_compute_between_is_captured(captured: Run, program: str) -> None:
    module = captured.dump[program]
    calls = [thunk for thunk in module.final_thunks if thunk.kind == "kCustomCall"]
    assert [thunk.inside for thunk in calls] == ["", ""]
    order = module.order(module.final_thunks)
    between = order[order.index("start") : order.index("done")]
    assert any(word.startswith("kCommandBuffer") for word in between)
    assert any("dot" in word for word in between)


def test_a_branch_with_calls_is_captured(captured: Run) -> None:
    module = captured.dump["collectives_in_a_branch"]
    calls = [thunk for thunk in module.final_thunks if thunk.kind == "kCustomCall"]
    assert len(calls) == 2
    assert [call.inside for call in calls] == ["kConditional"] * 2
    (conditional,) = [thunk for thunk in module.final_thunks if thunk.kind == "kConditional"]
    assert conditional.inside == "kCommandBuffer"
