"""What `xla-shmem compare` takes the ring's transfers away from: the same arithmetic, and nothing sent."""

import re
from collections import Counter

import jax
import jax.numpy as jnp

from xla_shmem.parallel.mesh import make_mesh
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.silent_ring import silenced
from xla_shmem.train.step import abstract_state, make_train_step

CONFIG = TrainConfig(preset="tiny", layers=1, context=4, batch=2, data=2, sequence=64)


def compiled_ops() -> Counter[str]:
    """How often the compiled training step has each op."""
    mesh = make_mesh(CONFIG.mesh())
    tokens = jax.ShapeDtypeStruct((CONFIG.batch, CONFIG.sequence), jnp.int32)
    step = make_train_step(CONFIG, mesh).lower(abstract_state(CONFIG, mesh), tokens, tokens).compile()
    return Counter(re.findall(r" = .*? ([a-z-]+)\(", step.as_text()))


def test_a_silent_ring_sends_nothing_and_computes_as_much() -> None:
    with silenced():
        silent = compiled_ops()
    sending = compiled_ops()
    assert sending["collective-permute"] > 0
    assert silent["collective-permute"] == 0
    for op in ("dot", "exponential", "all-reduce"):
        assert silent[op] == sending[op] > 0, op
