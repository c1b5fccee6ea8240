"""The training step of the decoder on a mesh, and its state."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from long_context.models.llama import FP8, ROUTER_LOSS, Llama, next_token_loss
from long_context.parallel import sharding
from long_context.parallel.operations import make_operations
from long_context.parallel.zigzag import zigzag_positions
from long_context.train.config import TrainConfig

_TYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


class TrainState(NamedTuple):
    """The state that a step updates."""

    step: jax.Array  # i32: number of steps done
    params: Any  # f32
    optimizer: optax.OptState
    fp8: Any  # scales and amax histories; empty without FP8


TrainStep = Callable[[TrainState, jax.Array, jax.Array], tuple[TrainState, jax.Array]]


def make_model(config: TrainConfig, mesh: Mesh) -> Llama:
    """The decoder of a job with the operations of its mesh."""
    operations = make_operations(mesh, config.attention, config.tensor_matmul, config.attention_blocks)
    return Llama(config.model(), operations, _TYPES[config.dtype], config.remat, config.fp8)


def make_optimizer(config: TrainConfig) -> optax.GradientTransformation:
    """AdamW with gradients clipped to norm 1, linear warm-up and cosine decay over the job's steps."""
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=config.learning_rate / (config.warmup_steps + 1),
        peak_value=config.learning_rate,
        warmup_steps=config.warmup_steps,
        decay_steps=max(config.steps, config.warmup_steps + 1),
        end_value=config.learning_rate / 10,
    )
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.1, mask=_decayed))


def _decayed(params: Any) -> Any:
    """Weight decay applies to matrices, not to the scales of norms."""
    return jax.tree_util.tree_map_with_path(lambda path, _: jax.tree_util.DictKey("scale") not in path, params)


def abstract_state(config: TrainConfig, mesh: Mesh) -> TrainState:
    """Shapes, types and shardings of the state, to restore a checkpoint or to compile a step."""
    boxed = jax.eval_shape(functools.partial(_fresh, config, mesh), jax.random.key(0))
    shardings = sharding.parameters(boxed, mesh)
    return jax.tree.map(  # type: ignore[no-any-return]
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),  # type: ignore[no-untyped-call]
        nn.unbox(boxed),
        shardings,
    )


def make_init(config: TrainConfig, mesh: Mesh) -> Callable[[jax.Array], TrainState]:
    """The compiled initialisation, key -> state.

    This is delayed parameter initialization: nothing exists before the compiled program, and in it every device creates
    only its own shards. No full copy of a parameter is anywhere, on no device and on no host.
    """
    shardings = jax.tree.map(lambda x: x.sharding, abstract_state(config, mesh))
    return jax.jit(lambda key: nn.unbox(_fresh(config, mesh, key)), out_shardings=shardings)


def init_state(config: TrainConfig, mesh: Mesh) -> TrainState:
    """Fresh state from the job's seed: the same values on every mesh, created in shards."""
    return make_init(config, mesh)(jax.random.key(config.seed))


def _fresh(config: TrainConfig, mesh: Mesh, key: jax.Array) -> TrainState:
    """Fresh state; parameters and their optimizer state are boxed with their logical axes."""
    # The smallest batch of which every rank has a part; parameters do not depend on it.
    groups = math.prod(mesh.shape[axis] for axis in sharding.BATCH)
    shape = (groups, 2 * sharding.context_degree(mesh) * mesh.shape["tensor"])
    tokens = jnp.zeros(shape, jnp.int32)
    variables = make_model(config, mesh).init(key, tokens, tokens[0])
    optimizer = make_optimizer(config).init(variables["params"])
    return TrainState(jnp.zeros((), jnp.int32), variables["params"], optimizer, variables.get(FP8, {}))


class Losses(NamedTuple):
    """Of one batch."""

    trained: jax.Array  # what the step minimises: nats per token, and the routers' losses of a mixture of experts
    tokens: jax.Array  # nats per token


def make_losses(config: TrainConfig, mesh: Mesh) -> Callable[[Any, Any, jax.Array, jax.Array], Losses]:
    """The losses: (params, fp8, inputs, targets) -> `Losses`; arrays as for `make_train_step`."""
    model = make_model(config, mesh)

    def losses(params: Any, fp8: Any, inputs: jax.Array, targets: jax.Array) -> Losses:
        sequence = inputs.shape[1]
        positions = zigzag_positions(jnp.arange(sequence), sequence, sharding.context_degree(mesh))
        found: Any = model.apply({"params": params, FP8: fp8}, inputs, positions, mutable=[ROUTER_LOSS])
        scores, routers = found
        tokens = next_token_loss(scores, targets)
        by_layer = jax.tree.leaves(routers)
        routing = model.config.router_loss * jnp.mean(by_layer[0]) if by_layer else 0
        return Losses(tokens + routing, tokens)

    return losses


def make_loss(config: TrainConfig, mesh: Mesh) -> Callable[[Any, Any, jax.Array, jax.Array], jax.Array]:
    """The loss that a step minimises: (params, fp8, inputs, targets) -> scalar; arrays as for `make_train_step`."""
    losses = make_losses(config, mesh)
    return lambda *arguments: losses(*arguments).trained


def make_evaluation(config: TrainConfig, mesh: Mesh) -> Callable[[TrainState, jax.Array, jax.Array], jax.Array]:
    """The compiled evaluation: (state, inputs, targets) -> nats per token; arrays as for `make_train_step`."""
    losses = make_losses(config, mesh)
    return jax.jit(lambda state, inputs, targets: losses(state.params, state.fp8, inputs, targets).tokens)


def make_train_step(config: TrainConfig, mesh: Mesh) -> TrainStep:
    """The compiled step: (state, inputs, targets) -> (new state, loss of the old one in nats per token).

    Inputs and targets are [batch, sequence] int32 in zig-zag order for the mesh's `context`, sharded as
    `sharding.tokens`. The state's buffers are donated.
    """
    losses = make_losses(config, mesh)
    optimizer = make_optimizer(config)
    shardings = jax.tree.map(lambda x: x.sharding, abstract_state(config, mesh))
    replicated = NamedSharding(mesh, P())  # type: ignore[no-untyped-call]
    tokens = sharding.tokens(mesh)

    @functools.partial(
        jax.jit,
        donate_argnums=0,
        in_shardings=(shardings, tokens, tokens),
        out_shardings=(shardings, replicated),
    )
    def train_step(state: TrainState, inputs: jax.Array, targets: jax.Array) -> tuple[TrainState, jax.Array]:
        def loss(params: Any, fp8: Any) -> tuple[jax.Array, jax.Array]:
            return losses(params, fp8, inputs, targets)

        differentiated = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
        (_, value), (gradients, fp8) = differentiated(state.params, state.fp8)
        updates, optimizer_state = optimizer.update(gradients, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        # The "gradients" of FP8 scales and histories are their new values.
        new = TrainState(state.step + 1, params, optimizer_state, fp8)
        return new, value

    return train_step
