"""Context parallelism divides a device's activation memory by its degree, by XLA's own memory analysis."""

import jax
import jax.numpy as jnp
import pytest

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.train.config import TrainConfig
from long_context.train.step import abstract_state, make_train_step

pytestmark = pytest.mark.usefixtures("quick_compilation")

SEQUENCE = 8192
# Blocks on their way round the ring and the gradients of parameters do not shrink with the degree.
OVERHEAD = 1.3


def activation_bytes(context: int) -> int:
    """Bytes that a device needs for one training step, without the state and the tokens."""
    sizes = {"width": 64, "layers": 2, "heads": 4, "kv_heads": 2, "hidden": 192}
    config = TrainConfig(batch=1, sequence=SEQUENCE, context=context, remat="full", **sizes)
    mesh = make_mesh(config.mesh(), jax.devices()[:context])
    tokens = jax.ShapeDtypeStruct((1, SEQUENCE), jnp.int32, sharding=sharding.tokens(mesh))
    compiled = make_train_step(config, mesh).lower(abstract_state(config, mesh), tokens, tokens).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def test_a_step_that_does_not_fit_on_one_device_fits_with_context_parallelism() -> None:
    needed = {context: activation_bytes(context) for context in (1, 4)}
    for context, size in needed.items():
        assert size <= OVERHEAD * needed[1] / context, f"context {context} needs {size} bytes, one device {needed[1]}"
    memory = needed[1] // 2  # of a device
    assert needed[4] < memory < needed[1]
