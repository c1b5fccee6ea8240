"""A mixture of SwiGLU experts, of which a router chooses a few for each token (Jiang et al.: arXiv:2401.04088).

No token is dropped: rows are sorted by expert and multiplied in groups of any size.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Experts(NamedTuple):
    """Weights of all experts, or of a rank's."""

    gate: jax.Array  # [experts, width, hidden]
    up: jax.Array  # [experts, width, hidden]
    down: jax.Array  # [experts, hidden, width]


class Routes(NamedTuple):
    """The choices of all tokens, each token `count` times, sorted by expert."""

    token: jax.Array  # [tokens * count] index of the token
    expert: jax.Array  # [tokens * count], ascending
    weight: jax.Array  # [tokens * count] f32, the weights of a token sum to 1


def routes(scores: jax.Array, count: int) -> Routes:
    """The `count` best experts of each token and the softmax of their scores [tokens, experts]."""
    best, chosen = lax.top_k(scores, count)
    order = jnp.argsort(chosen.reshape(-1), stable=True)
    weights = jax.nn.softmax(best.astype(jnp.float32), axis=-1)
    return Routes(order // count, chosen.reshape(-1)[order], weights.reshape(-1)[order])


def grouped_swiglu(rows: jax.Array, sizes: jax.Array, weights: Experts) -> jax.Array:
    """Each row [rows, width] through its expert.

    Args:
      rows: sorted by expert; rows after the last expert's give zeros.
      sizes: [experts] rows of each expert.
      weights: of these experts.
    """
    used = (jnp.arange(len(rows)) < jnp.sum(sizes))[:, None]

    def product(x: jax.Array, kernel: jax.Array) -> jax.Array:
        # What a grouped matmul gives for rows of no group depends on the backend.
        return jnp.where(used, lax.ragged_dot(x, kernel, sizes), 0).astype(rows.dtype)

    hidden = jax.nn.silu(product(rows, weights.gate)) * product(rows, weights.up)
    return product(hidden, weights.down)


def apply_experts(x: jax.Array, scores: jax.Array, weights: Experts, count: int) -> jax.Array:
    """The mixture on one device: x [batch, tokens, width], router scores [batch, tokens, experts] -> like x."""
    flat = x.reshape(-1, x.shape[-1])
    found = routes(scores.reshape(len(flat), -1), count)
    sizes = jnp.bincount(found.expert, length=len(weights.gate))
    return combine(grouped_swiglu(flat[found.token], sizes, weights), found, flat).reshape(x.shape)


def combine(rows: jax.Array, found: Routes, like: jax.Array) -> jax.Array:
    """The weighted sum of each token's rows, summed in f32, in shape and type of `like` [tokens, width]."""
    weighted = rows.astype(jnp.float32) * found.weight[:, None]
    return jnp.zeros_like(like, jnp.float32).at[found.token].add(weighted).astype(like.dtype)


def balance_loss(scores: jax.Array, count: int) -> jax.Array:
    """Experts times the sum over experts of (fraction of tokens that chose it) x (its mean probability).

    It is `count` if all experts get the same share, and up to `experts` if some get all (Fedus et al.:
    arXiv:2101.03961, for `count` experts as in Mixtral).

    Args:
      scores: [batch, tokens, experts] of the router.
      count: experts of a token.
    """
    experts = scores.shape[-1]
    # A comparison with the count-th best, not indices: it stays where the scores are.
    best = jnp.sort(scores, axis=-1)[..., experts - count, None]
    chosen = jnp.mean((scores >= best).astype(jnp.float32), axis=(0, 1))
    probability = jnp.mean(jax.nn.softmax(scores, axis=-1), axis=(0, 1))
    return experts * jnp.sum(lax.stop_gradient(chosen) * probability)
