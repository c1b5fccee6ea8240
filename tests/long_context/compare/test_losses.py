"""When losses of two runs agree."""

from __future__ import annotations

import math

import pytest

from long_context.compare.side_by_side import disagreement, loss_differences
from long_context.train.step_log import StepRecord
from xla_shmem.backends import PLUGIN, STOCK


def _run(*losses: float, seconds: float = 0.5) -> list[StepRecord]:
    return [StepRecord(step, loss, seconds, 64) for step, loss in enumerate(losses)]


def test_equal_losses_agree() -> None:
    runs = {PLUGIN: [_run(4.0, 3.0)], STOCK: [_run(4.0, 3.0)]}
    assert loss_differences(runs) == [0.0, 0.0]
    assert disagreement([0.0, 0.0]) is None


def test_a_loss_beyond_the_tolerance_is_named_by_its_step() -> None:
    runs = {PLUGIN: [_run(4.0, 3.003)], STOCK: [_run(4.0, 3.0)]}
    sentence = disagreement(loss_differences(runs))
    assert sentence is not None
    assert "step 1" in sentence
    assert "1.0e-03" in sentence


def test_the_largest_difference_of_all_rounds_counts() -> None:
    runs = {PLUGIN: [_run(2.0), _run(2.1)], STOCK: [_run(2.0), _run(2.0)]}
    assert loss_differences(runs) == [pytest.approx(0.05)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_never_agrees(bad: float) -> None:
    runs = {PLUGIN: [_run(bad)], STOCK: [_run(bad)]}
    assert disagreement(loss_differences(runs)) == "The loss of step 0 is not a finite number."
