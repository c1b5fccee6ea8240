"""`benchmarks/ring_benchmark.py`: rings with equal arithmetic that send little or nothing, and what it computes."""

import functools
import math
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from long_context.parallel.mesh import make_mesh
from long_context.train.config import TrainConfig
from long_context.train.step import abstract_state, make_train_step
from long_context.train.step_log import StepRecord
from ring_benchmark import ON_SHMEM, ON_STOCK, Ring, median_interval, parts, traced_as
from xla_shmem.options import resolve

CONFIG = TrainConfig(preset="tiny", layers=1, context=4, batch=2, data=2, sequence=64)


@functools.cache
def compiled(ring: Ring) -> list[tuple[str, str]]:
    """Shape and op of every instruction of the compiled training step."""
    mesh = make_mesh(CONFIG.mesh())
    tokens = jax.ShapeDtypeStruct((CONFIG.batch, CONFIG.sequence), jnp.int32)
    with traced_as(ring):
        step = make_train_step(CONFIG, mesh).lower(abstract_state(CONFIG, mesh), tokens, tokens).compile()
    return re.findall(r" = (.*?) ([a-z-]+)\(", step.as_text())


def ops(step: list[tuple[str, str]]) -> Counter[str]:
    return Counter(op for _, op in step)


@pytest.mark.parametrize("ring", [pytest.param(Ring.WAITING, marks=pytest.mark.slow), Ring.SILENT])
def test_other_rings_have_the_same_arithmetic(ring: Ring) -> None:
    ablation, sending = ops(compiled(ring)), ops(compiled(Ring.SENDING))
    for op in ("dot", "exponential", "all-reduce"):
        assert ablation[op] == sending[op] > 0, op


def test_a_silent_ring_sends_nothing() -> None:
    assert ops(compiled(Ring.SILENT))["collective-permute"] == 0


def test_a_waiting_ring_sends_one_element_for_every_block() -> None:
    waiting = [shape for shape, op in compiled(Ring.WAITING) if op == "collective-permute"]
    assert len(waiting) == ops(compiled(Ring.SENDING))["collective-permute"] > 0
    assert {shape.partition("{")[0] for shape in waiting} == {"f32[1,1,1,1,1]"}


SECONDS = {Ring.SENDING: 0.8, Ring.WAITING: 0.45, Ring.SILENT: 0.4}


def steps(drift=lambda step: 0.0) -> dict[Ring, list[list[StepRecord]]]:
    """Two rounds of 21 steps, to each of which the time of its turn is added."""
    return {
        ring: [[StepRecord(step, 4.0, seconds + drift(step), 64) for step in range(21)]] * 2
        for ring, seconds in SECONDS.items()
    }


def test_the_time_of_the_ring_is_a_step_minus_a_silent_one_and_consists_of_transfers_and_waits() -> None:
    found = parts(steps())
    assert found["ring"] == pytest.approx((0.4, 0.4, 0.4))
    assert found["transfers"] == pytest.approx((0.35, 0.35, 0.35))
    assert found["waits"] == pytest.approx((0.05, 0.05, 0.05))
    assert str(found["ring"]) == "400.0 (400.0 to 400.0)"


def test_it_is_computed_within_a_turn_of_steps_without_the_first_steps() -> None:
    """The machine gets slower with every turn; the first steps compile and would change the median."""
    slower = steps(lambda step: 0.1 * step)
    for ring, seconds in ((Ring.SENDING, 1000.0), (Ring.WAITING, 1.0)):
        slower[ring] = [[x._replace(seconds=seconds if x.step < 3 else x.seconds) for x in run] for run in slower[ring]]
    assert parts(slower)["transfers"] == pytest.approx((0.35, 0.35, 0.35))


def test_the_interval_contains_the_median_with_its_confidence() -> None:
    """Draws of 40 from a skewed distribution whose median is 1: at least 95 % of the intervals contain it."""
    draws = np.random.default_rng(5).exponential(1 / math.log(2), (2000, 40))
    intervals = [median_interval(draw.tolist()) for draw in draws]
    held = sum(each.low <= 1 <= each.high for each in intervals) / len(intervals)
    assert 0.94 < held < 0.98
    assert all(each.low <= each.median <= each.high for each in intervals)
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)  # too few for 95 %


def test_a_time_that_cannot_be_told_from_noise_is_not_shown_as_a_number() -> None:
    assert str(median_interval([-0.01, 0.01] * 10)) == "noise (-10.0 to 10.0)"


def test_both_backends_carry_sums_and_single_elements_on_shmem_and_one_of_them_blocks() -> None:
    moved = [dict(resolve(dict(backend.variables), {}).ops) for backend in (ON_SHMEM, ON_STOCK)]
    assert moved == [
        {"all-reduce": None, "collective-permute": None},
        {"all-reduce": None, "collective-permute": 16},
    ]
