"""A mixture of experts that is split over a mesh: tokens travel to their experts and back with all-to-alls.

Along the axis "expert" every device has some of the experts, and other tokens than its neighbours. Along "tensor" the
experts' hidden features are split, and partial results are summed. No token is dropped: each message has room for all
tokens of its sender that may go there.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from long_context.models.experts import Experts, combine, grouped_swiglu, routes
from long_context.parallel import sharding

_AXIS = "expert"


def distributed_experts(mesh: Mesh, x: jax.Array, scores: jax.Array, weights: Experts, count: int) -> jax.Array:
    """As `models.experts.apply_experts`, with tokens and experts split over a mesh.

    Args:
      mesh: mesh of the job.
      x: [batch, tokens, width].
      scores: [batch, tokens, experts] of the router.
      weights: sharded as parameters are.
      count: experts of a token.
    """
    rows = P(sharding.BATCH, sharding.CONTEXT)  # type: ignore[no-untyped-call]
    into = P(_AXIS, sharding.EXPERT_EMBED, "tensor")  # type: ignore[no-untyped-call]
    out = P(_AXIS, "tensor", sharding.EXPERT_EMBED)  # type: ignore[no-untyped-call]
    weight_specs: Any = Experts(into, into, out)  # type: ignore[arg-type]

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(rows, rows, weight_specs), out_specs=rows)
    def apply(x: jax.Array, scores: jax.Array, shards: Experts) -> jax.Array:
        whole = Experts(_whole(shards.gate, 1), _whole(shards.up, 1), _whole(shards.down, 2))
        mixed = _exchanged(x.reshape(-1, x.shape[-1]), scores.reshape(-1, scores.shape[-1]), whole, count)
        summed: jax.Array = lax.psum(mixed, "tensor")  # type: ignore[no-untyped-call]
        return summed.reshape(x.shape)

    mixed: jax.Array = apply(x, scores, weights)
    return mixed


def _exchanged(x: jax.Array, scores: jax.Array, weights: Experts, count: int) -> jax.Array:
    """The mixture of this rank's tokens [tokens, width], of this rank's share of hidden features."""
    ranks, local = lax.axis_size(_AXIS), len(weights.gate)
    found = routes(scores, count)
    # Rows go to the rank of their expert, in order; `room` fits the worst case.
    room = len(x) * min(count, local)
    rank = found.expert // local
    first = jnp.searchsorted(rank, jnp.arange(ranks))
    place = jnp.arange(len(rank)) - first[rank]
    rows = jnp.zeros((ranks, room, x.shape[-1]), x.dtype).at[rank, place].set(x[found.token])
    nobody = jnp.full((ranks, room), local)  # no expert: an empty place
    experts = nobody.at[rank, place].set(found.expert % local)

    rows, experts = _all_to_all(rows), _all_to_all(experts)
    order = jnp.argsort(experts.reshape(-1), stable=True)
    sizes = jnp.bincount(experts.reshape(-1), length=local + 1)[:local]
    computed = grouped_swiglu(rows.reshape(-1, rows.shape[-1])[order], sizes, weights)
    back = _all_to_all(jnp.zeros_like(computed).at[order].set(computed).reshape(rows.shape))
    return combine(back[rank, place], found, x)


def _all_to_all(x: jax.Array) -> jax.Array:
    """[ranks, ..]: part i of every rank goes to rank i."""
    return lax.all_to_all(x, _AXIS, split_axis=0, concat_axis=0, tiled=True)  # type: ignore[no-untyped-call,no-any-return]


def _whole(shard: jax.Array, axis: int) -> jax.Array:
    """A weight gathered from its shards; the transpose reduce-scatters its gradient."""
    gathered: jax.Array = lax.all_gather(shard, sharding.EXPERT_EMBED, axis=axis, tiled=True)
    return gathered
