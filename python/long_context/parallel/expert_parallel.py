"""A mixture-of-experts layer whose experts are spread over the ranks of a mesh axis.

Every token goes to the few experts that its router scores highest. With E experts on R ranks, rank r has the experts
r·E/R … (r+1)·E/R - 1. A ragged all-to-all brings the rows of tokens to the ranks of their experts, and a second one
brings the results back. No token is dropped and no row is padded: each transfer moves as many rows as there are, and
only the receiving buffer has room for the worst case.

    the ranks tell one another how many rows they have for each expert       all-gather of R x E numbers
    rows to experts: sorted by expert, then by the rank they come from       ragged all-to-all, E/R slices for each rank
    every expert multiplies its rows                                         lax.ragged_dot
    results back to the tokens                                               ragged all-to-all

Call `expert_layer` inside `jax.shard_map`. The backward pass has the same two transfers in the other direction.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class ExpertWeights(NamedTuple):
    """The SwiGLU layers of some experts.

    Attributes:
      gate, up: [experts, width, hidden].
      down: [experts, hidden, width].
    """

    gate: jax.Array
    up: jax.Array
    down: jax.Array


class Routing(NamedTuple):
    """The experts of each token.

    Attributes:
      experts: numbers of experts, [tokens, experts of a token].
      shares: how much each contributes to the token's result, of the same shape; the shares of a token add up to 1.
    """

    experts: jax.Array
    shares: jax.Array


def route(x: jax.Array, router: jax.Array, experts_per_token: int) -> Routing:
    """Chooses the experts with the highest scores.

    Args:
      x: tokens, [tokens, width].
      router: [width, experts].
      experts_per_token: how many experts each token has.
    """
    scores = jax.nn.softmax((x @ router).astype(jnp.float32))
    best, experts = lax.top_k(scores, experts_per_token)
    return Routing(experts, (best / best.sum(-1, keepdims=True)).astype(x.dtype))


def expert_layer(x: jax.Array, routing: Routing, weights: ExpertWeights, *, axis_name: str) -> jax.Array:
    """The sum of each token's experts, by their shares.

    Args:
      x: this rank's tokens, [tokens, width]; as many on every rank.
      routing: the experts of these tokens, among all experts of the axis.
      weights: of this rank's experts; as many on every rank.
      axis_name: mesh axis that the experts are spread over.

    Returns:
      [tokens, width], in the type of `x`.
    """
    rank, ranks = lax.axis_index(axis_name), lax.axis_size(axis_name)
    local_experts = weights.gate.shape[0]
    tokens, per_token = routing.experts.shape
    expert_of_row = routing.experts.ravel()
    by_expert = jnp.argsort(expert_of_row, stable=True)  # rows are pairs of a token and one of its experts
    rows = x[by_expert // per_token]

    counts = jnp.sum(expert_of_row[:, None] == jnp.arange(ranks * local_experts), axis=0, dtype=jnp.int32)
    # [from rank, to rank, expert of that rank]
    everyones = lax.all_gather(counts, axis_name).reshape(ranks, ranks, local_experts)
    starts = _sums_before(everyones.reshape(ranks, -1), axis=1).reshape(everyones.shape)  # in the sender's rows
    places = _sums_before(everyones.sum(0), axis=1) + _sums_before(everyones, axis=0)  # in the receiver's rows
    sent = everyones[rank].ravel(), starts[rank].ravel(), places[rank].ravel()
    received = everyones[:, rank].ravel(), starts[:, rank].ravel(), places[:, rank].ravel()

    room = jnp.zeros_like(rows, shape=(ranks * tokens * per_token, x.shape[1]))
    here = _exchange(rows, room, *sent, received[0], axis_name)
    rows_of_expert = everyones[:, rank].sum(0)
    hidden = jax.nn.silu(lax.ragged_dot(here, weights.gate, rows_of_expert))
    hidden *= lax.ragged_dot(here, weights.up, rows_of_expert)
    results = lax.ragged_dot(hidden, weights.down, rows_of_expert)
    # Back: the rows start from their places here, and their starts there are the places.
    counts_back, places_back, starts_back = received
    back = _exchange(results, jnp.zeros_like(rows), counts_back, starts_back, places_back, sent[0], axis_name)
    shares = routing.shares.ravel()[by_expert][:, None]
    return jnp.zeros_like(x).at[by_expert // per_token].add(back * shares)


def _exchange(
    rows: jax.Array,
    room: jax.Array,
    counts: jax.Array,
    starts: jax.Array,
    places: jax.Array,
    counts_received: jax.Array,
    axis_name: str,
) -> jax.Array:
    """`room` with the rows that all ranks send here; what follows them stays."""
    exchanged: jax.Array = lax.ragged_all_to_all(  # type: ignore[no-untyped-call]
        rows, room, starts, counts, places, counts_received, axis_name=axis_name
    )
    return exchanged


def _sums_before(counts: jax.Array, axis: int) -> jax.Array:
    """For each number the sum of those before it along the axis."""
    return jnp.cumsum(counts, axis) - counts
