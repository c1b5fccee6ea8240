"""The decoder on any mesh equals the decoder on one device: loss, gradients, and training."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from long_context.models.llama import Llama, next_token_loss
from long_context.models.llama_config import LlamaConfig, RopeScaling
from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.parallel.mesh_shape import MeshShape
from long_context.parallel.operations import make_operations
from long_context.parallel.zigzag import zigzag_order
from long_context.train.config import TrainConfig
from long_context.train.step import init_state, make_train_step

pytestmark = pytest.mark.usefixtures("quick_compilation")

# Two layers' sums in another order; f32 keeps 2^-24 of each. bf16 keeps 2^-8 of weights, activations and gradients.
TOLERANCE = {"float32": 2e-5, "bfloat16": 4e-2}

BATCH, SEQUENCE = 4, 32
PLAIN = LlamaConfig(vocab=64, width=32, layers=2, heads=4, kv_heads=2, hidden=48)
# Everything that the plain one leaves out.
VARIED = dataclasses.replace(
    PLAIN, tied_head=True, qk_norm=True, parallel_block=True, rope_scaling=RopeScaling(original=16)
)
FOUR_KV_HEADS = dataclasses.replace(PLAIN, kv_heads=4)
MIXTURE = dataclasses.replace(PLAIN, experts=4, hidden=24)
NAMES = {PLAIN: "plain", VARIED: "varied", FOUR_KV_HEADS: "four kv heads", MIXTURE: "mixture"}
OVERLAPPED = {"tensor_matmul": "async"}
TOKENS = np.random.default_rng(0).integers(0, PLAIN.vocab, (BATCH, SEQUENCE + 1)).astype(np.int32)


@pytest.fixture(scope="module")
def params(quick_compilation):
    """Boxed parameters of a decoder, created without a mesh."""
    tokens = jnp.zeros((1, 2), jnp.int32)
    return {config: jax.jit(Llama(config).init)(jax.random.key(0), tokens, tokens[0])["params"] for config in NAMES}


@pytest.fixture(scope="module")
def on_one_device(params):
    """Loss and gradients of the program without a mesh."""

    def compute(config: LlamaConfig):
        def loss(values):
            scores = Llama(config).apply({"params": values}, TOKENS[:, :-1], jnp.arange(SEQUENCE))
            return next_token_loss(scores, TOKENS[:, 1:])

        return jax.jit(jax.value_and_grad(loss))(nn.unbox(params[config]))

    return {config: compute(config) for config in NAMES}


@pytest.mark.parametrize(
    ("shape", "config", "options"),
    [
        (MeshShape(), PLAIN, {}),
        (MeshShape(fsdp=2), PLAIN, {}),
        (MeshShape(tensor=2), VARIED, {}),
        (MeshShape(data=2, fsdp=2), VARIED, {"remat": "dots"}),
        (MeshShape(context=4), VARIED, {"remat": "full"}),
        (MeshShape(context=4, tensor=2), PLAIN, {"attention": "gather"}),
        (MeshShape(fsdp=2, context=2, tensor=2), PLAIN, {"remat": "attention"}),
        (MeshShape(data=2, fsdp=2, context=2, context_shards=2), PLAIN, {}),
        (MeshShape(data=2, context=4, context_shards=2), PLAIN, {}),
        (
            MeshShape(fsdp=2, context=2, tensor=2, context_shards=2),
            VARIED,
            {"attention": "gather", "remat": "attention"},
        ),
        (MeshShape(fsdp=2, context=2, tensor=2), PLAIN, {"dtype": jnp.bfloat16}),
        (MeshShape(data=2, tensor=4), FOUR_KV_HEADS, OVERLAPPED),
        (MeshShape(fsdp=2, context=2, tensor=2), VARIED, OVERLAPPED | {"remat": "full"}),
        (
            MeshShape(fsdp=2, context=2, tensor=2, context_shards=2),
            VARIED,
            OVERLAPPED | {"attention": "gather", "remat": "attention"},
        ),
        (MeshShape(fsdp=2, context=2, tensor=2), PLAIN, OVERLAPPED | {"dtype": jnp.bfloat16}),
        (MeshShape(fsdp=2, expert=2, tensor=2), MIXTURE, {"remat": "full"}),
        (MeshShape(data=2, expert=2, tensor=2), MIXTURE, OVERLAPPED | {"remat": "attention"}),
    ],
    ids=lambda value: NAMES[value] if isinstance(value, LlamaConfig) else str(value),
)
def test_loss_and_gradients_equal_those_of_one_device(shape, config, options, params, on_one_device) -> None:
    defaults = {"dtype": jnp.float32, "remat": "none", "attention": "ring"}
    options = defaults | {"tensor_matmul": "sync"} | options
    mesh = make_mesh(shape, jax.devices()[: shape.devices])
    operations = make_operations(mesh, options["attention"], options["tensor_matmul"])
    model = Llama(config, operations, options["dtype"], options["remat"])
    held = sharding.parameters(params[config], mesh)
    order = zigzag_order(SEQUENCE, shape.context)

    def loss(values, inputs, targets):
        return next_token_loss(model.apply({"params": values}, inputs, jnp.asarray(order)), targets)

    tokens = sharding.tokens(mesh)
    compute = jax.jit(jax.value_and_grad(loss), in_shardings=(held, tokens, tokens), out_shardings=(None, held))
    got, gradients = compute(nn.unbox(params[config]), TOKENS[:, :-1][:, order], TOKENS[:, 1:][:, order])
    want, wanted = on_one_device[config]
    tolerance = TOLERANCE[jnp.dtype(options["dtype"]).name]
    assert float(got) == pytest.approx(float(want), rel=tolerance)
    for (path, gradient), expected in zip(
        jax.tree_util.tree_leaves_with_path(gradients), jax.tree.leaves(wanted), strict=True
    ):
        error = np.abs(np.asarray(gradient) - expected).max() / np.abs(expected).max()
        assert error <= tolerance, f"{jax.tree_util.keystr(path)} is off by {error:.1e} of its largest value"


def losses(steps: int = 4, **options) -> np.ndarray:
    sizes = {"width": 32, "layers": 2, "heads": 4, "kv_heads": 2, "hidden": 48}
    config = TrainConfig(steps=steps, batch=BATCH, sequence=SEQUENCE, **sizes, **({"context": 1} | options))
    mesh = make_mesh(config.mesh(), jax.devices()[: config.mesh().devices])
    state, train_step = init_state(config, mesh), make_train_step(config, mesh)
    order, where = zigzag_order(SEQUENCE, config.context), sharding.tokens(mesh)
    found = []
    for _ in range(steps):
        inputs, targets = (jax.device_put(x[:, order], where) for x in (TOKENS[:, :-1], TOKENS[:, 1:]))
        state, loss = train_step(state, inputs, targets)
        found.append(float(loss))
    assert int(state.step) == steps
    return np.array(found)


def test_training_on_a_mesh_equals_training_on_one_device() -> None:
    # Rounding is fed back through three optimiser steps; the mesh draws the same parameters, shard by shard.
    alone, spread = losses(), losses(fsdp=2, context=2, tensor=2)
    assert alone[-1] < alone[0], f"nothing was learnt: {alone}"
    np.testing.assert_allclose(spread, alone, rtol=1e-5)
