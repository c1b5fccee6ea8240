"""Trains a mixture-of-experts model with its experts spread over all devices, and the same model without a mesh.

Each rank reports the losses of both, the largest difference between their gradients, and what the programs moved.
"""

from __future__ import annotations

import os
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from job_runs import report

from long_context.parallel.expert_parallel import ExpertWeights, Routing, expert_layer, route

LAYERS, EXPERTS, PER_TOKEN, TOKENS, WIDTH, HIDDEN, STEPS, RATE = 2, 8, 2, 96, 16, 24, 8, 0.5

#: The expert of the first layer that no token chooses, so that parts are empty. The first feature of tokens is 1.
IDLE = 5

#: Where the parameters of a layer lie.
SPLIT = {"router": P(), "experts": ExpertWeights(P("x"), P("x"), P("x"))}


def parameters(random: np.random.Generator) -> list[dict[str, Any]]:
    def draw(*shape: int) -> np.ndarray:
        return random.normal(0, shape[-2] ** -0.5, shape).astype(np.float32)

    experts = [
        ExpertWeights(draw(EXPERTS, WIDTH, HIDDEN), draw(EXPERTS, WIDTH, HIDDEN), draw(EXPERTS, HIDDEN, WIDTH))
        for _ in range(LAYERS)
    ]
    layers = [{"router": draw(WIDTH, EXPERTS), "experts": weights} for weights in experts]
    layers[0]["router"][0, IDLE] = -40
    return layers


def every_expert(x: jax.Array, routing: Routing, weights: ExpertWeights) -> jax.Array:
    """`expert_layer` without transfers: every expert gets every token, and shares choose among the results."""
    hidden = jax.nn.silu(jnp.einsum("tw,ewh->eth", x, weights.gate)) * jnp.einsum("tw,ewh->eth", x, weights.up)
    shares = jnp.zeros((len(x), EXPERTS)).at[jnp.arange(len(x))[:, None], routing.experts].add(routing.shares)
    return jnp.einsum("te,eth,ehw->tw", shares, hidden, weights.down)


def forward(layers: list[dict[str, Any]], x: jax.Array, layer: Any) -> tuple[jax.Array, list[jax.Array]]:
    """The model's results and the experts that its layers chose."""
    chosen = []
    for parameters in layers:
        routing = route(x, parameters["router"], PER_TOKEN)
        chosen.append(routing.experts)
        x = x + layer(x, routing, parameters["experts"])
    return x, chosen


@jax.jit
def descend(weights: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, gradients)


def main() -> None:
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    world = World()
    inputs, targets = world.random.normal(size=(2, TOKENS, WIDTH)).astype(np.float32)
    inputs[:, 0] = 1
    layers = parameters(world.random)

    def dense_loss(layers: list[dict[str, Any]], x: jax.Array, y: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        results, chosen = forward(layers, x, every_expert)
        return jnp.mean((results - y) ** 2), chosen

    def loss(layers: list[dict[str, Any]], x: jax.Array, y: jax.Array) -> jax.Array:
        results, _ = forward(layers, x, lambda *given: expert_layer(*given, axis_name="x"))
        return lax.pmean(jnp.mean((results - y) ** 2), "x")

    split = [SPLIT] * LAYERS
    whole = jax.shard_map(loss, mesh=world.mesh, in_specs=(split, P("x"), P("x")), out_specs=P(), check_vma=False)
    spread = jax.tree.map(lambda values, spec: world.put(values, *(spec or (None,))), layers, split)
    x, y = world.put(inputs), world.put(targets)
    gradient, dense_gradient = jax.jit(jax.value_and_grad(whole)), jax.jit(jax.value_and_grad(dense_loss, has_aux=True))
    moved = re.findall(r'custom_call_target="xla_shmem\.ragged', gradient.lower(spread, x, y).compile().as_text())

    losses, dense_losses, errors, counts = [], [], [], []
    for _ in range(STEPS):
        value, gradients = gradient(spread, x, y)
        (dense_value, chosen), dense_gradients = dense_gradient(layers, inputs, targets)
        losses.append(float(value))
        dense_losses.append(float(dense_value))
        errors += jax.tree.leaves(jax.tree.map(difference, gradients, dense_gradients))
        rows = np.asarray(jnp.stack(chosen)).reshape(LAYERS, world.n, -1)
        counts += [
            int((of_rank == expert).sum()) for of_rank in rows.reshape(-1, rows.shape[-1]) for expert in range(EXPERTS)
        ]
        spread, layers = descend(spread, gradients), descend(layers, dense_gradients)
    report(
        {
            "losses": losses,
            "dense": dense_losses,
            "error": max(errors),
            "ragged": len(moved),
            "fewest": min(counts),
            "most": max(counts),
        }
    )


def difference(spread: jax.Array, dense: jax.Array) -> float:
    """The largest difference of a local shard, in units of the largest value."""
    assert isinstance(spread.sharding, NamedSharding)
    wanted = np.asarray(dense)
    return max(
        float(np.abs(np.asarray(shard.data) - wanted[shard.index]).max()) for shard in spread.addressable_shards
    ) / float(np.abs(wanted).max())


if __name__ == "__main__":
    main()
