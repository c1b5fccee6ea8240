"""Shardings of a job's arrays on its mesh: parameters by their logical axes, activations, tokens."""

from __future__ import annotations

import functools
import math
from typing import Any

import flax.linen as nn
import jax
from flax.linen.spmd import logical_to_mesh_sharding
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

#: Mesh axes that split the batch.
BATCH = ("data", "fsdp", "expert")

#: Mesh axes that split the sequence.
CONTEXT = ("context", "context_shard")

#: Mesh axes that shard parameters; those of experts are split over `expert` by expert.
EMBED, EXPERT_EMBED = ("fsdp", "expert", "context_shard"), ("fsdp", "context_shard")

#: Mesh axes of every logical axis that a parameter can have.
PARAMETER_RULES: tuple[tuple[str, Any], ...] = (
    ("embed", EMBED),
    ("expert_embed", EXPERT_EMBED),
    ("experts", "expert"),
    ("layers", None),
    ("head_dim", None),
    *((name, "tensor") for name in ("heads", "kv_heads", "mlp", "vocab")),  # what a tensor-parallel layer splits
)

_ACTIVATIONS = {
    "batch": BATCH,
    "length": CONTEXT,
    "residual_length": CONTEXT,
    "heads": "tensor",
    "vocab": "tensor",
    "width": None,
}

# If tensor-parallel ranks hold slices of the sequence between layers, and of its scores, instead of all of it.
_SLICED = _ACTIVATIONS | {"residual_length": (*CONTEXT, "tensor"), "vocab": None}


def parameters(boxed: Any, mesh: Mesh) -> Any:
    """Shardings of a tree of parameters by the names of their logical axes; arrays without names are replicated.

    Args:
      boxed: tree with `flax.linen.LogicallyPartitioned` leaves, abstract or not, optimizer state included.
      mesh: mesh of the job.
    """
    return logical_to_mesh_sharding(nn.get_partition_spec(boxed), mesh, PARAMETER_RULES)


def context_degree(mesh: Mesh) -> int:
    """Devices over which the mesh splits the sequence."""
    return math.prod(mesh.shape[axis] for axis in CONTEXT)


def tokens(mesh: Mesh) -> NamedSharding:
    """Sharding of [batch, sequence] token arrays."""
    return NamedSharding(mesh, P(BATCH, CONTEXT))  # type: ignore[no-untyped-call]


def activation(mesh: Mesh, names: tuple[str | None, ...], sliced: bool = False) -> NamedSharding:
    """Sharding of an activation with these logical axes.

    Args:
      mesh: mesh of the job.
      names: batch, length, residual_length (between layers, and of scores), width, heads, vocab; None is not split.
      sliced: tensor-parallel ranks hold slices of the sequence between layers.
    """
    rules = _SLICED if sliced else _ACTIVATIONS
    spec = P(*(None if name is None else rules[name] for name in names))  # type: ignore[no-untyped-call]
    return NamedSharding(mesh, spec)


def pinned(x: jax.Array, where: NamedSharding) -> jax.Array:
    """x with this sharding."""
    placed: jax.Array = lax.with_sharding_constraint(x, where)  # type: ignore[no-untyped-call]
    return placed


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def gathered(weight: jax.Array, whole: NamedSharding, sharded: NamedSharding) -> jax.Array:
    """A weight gathered from its shards; its gradient is sharded where it is computed.

    A plain sharding constraint would not do: its transpose is the same constraint and would first need the whole
    gradient on every device.

    Args:
      weight: the weight, with sharding `sharded`.
      whole: sharding that a layer needs.
      sharded: sharding of the stored weight and of its gradient.
    """
    return pinned(weight, whole)


def _gathered_forward(weight: jax.Array, whole: NamedSharding, sharded: NamedSharding) -> tuple[jax.Array, None]:
    return pinned(weight, whole), None


def _gathered_backward(
    whole: NamedSharding, sharded: NamedSharding, residual: None, gradient: jax.Array
) -> tuple[jax.Array]:
    return (pinned(gradient, sharded),)


gathered.defvjp(_gathered_forward, _gathered_backward)
