"""The rings with which `xla-shmem compare` measures transfers: equal arithmetic, and little or nothing sent."""

import functools
import re
from collections import Counter

import jax
import jax.numpy as jnp
import pytest

from long_context.compare.ring_ablations import traced_as
from long_context.compare.ring_kinds import Ring
from long_context.parallel.mesh import make_mesh
from long_context.train.config import TrainConfig
from long_context.train.step import abstract_state, make_train_step

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
