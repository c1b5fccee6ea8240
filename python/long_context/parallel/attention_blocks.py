"""Attention of some queries to some keys, and its backward: distributed attention merges such partial results.

Softmax statistics and all sums are f32. The scores of many queries are computed in pieces, so memory is linear in the
length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

# Queries whose scores exist at the same time; a power of two, since usual lengths are multiples of it.
_QUERIES_AT_ONCE = 256

#: Name of a mesh axis, or of several, outermost first.
Axis = str | tuple[str, ...]

#: Name under which a remat policy keeps `Saved`, so that attention is neither computed nor sent twice.
SAVED = "attention"


class Saved(NamedTuple):
    """Values that the forward of a distributed attention keeps for its backward."""

    q: jax.Array  # [batch, kv_heads, group, query, head_dim]
    kv: jax.Array  # [2, batch, kv_heads, key, head_dim]: this rank's own block
    out: jax.Array  # like q
    normaliser: jax.Array  # f32, [batch, kv_heads, group, query, 1]: log of the sum of exp(score) over all keys


def named(saved: Saved) -> Saved:
    """The same values under the name `SAVED`, for remat policies."""
    return Saved(*(checkpoint_name(x, SAVED) for x in saved))  # type: ignore[no-untyped-call]


class Queries(NamedTuple):
    """Values of queries that the backward needs, all [batch, kv_heads, group, query, head_dim or 1]."""

    q: jax.Array
    gradient: jax.Array  # gradient of the output, in the type of q
    normaliser: jax.Array  # log of the sum of exp(score) over all keys
    inner: jax.Array  # sum over head_dim of gradient x output
    out: jax.Array  # output over all keys, in the type of q


class Partial(NamedTuple):
    """Attention to some of the keys, f32."""

    out: jax.Array  # [batch, kv_heads, group, query, head_dim], normalised over these keys
    normaliser: jax.Array  # [batch, kv_heads, group, query, 1]: log of the sum of exp(score)


class Blocks(NamedTuple):
    """Who computes attention to one block of keys."""

    attend: Callable[..., Partial]
    attend_backward: Callable[..., tuple[jax.Array, jax.Array]]


def start_backward(saved: Saved, gradient: jax.Array) -> tuple[Queries, jax.Array]:
    """Queries and this rank's own block, from the gradient of the output [batch, tokens, heads, head_dim]."""
    gradient = grouped(gradient, saved.q.shape[1])
    inner = _einsum("bkgqd,bkgqd->bkgq", gradient, saved.out)[..., None]
    # The backward sends the blocks again. Without the barrier the compiler could keep those of the forward instead.
    kv, inner = lax.optimization_barrier((saved.kv, inner))  # type: ignore[no-untyped-call]
    return Queries(saved.q, gradient, saved.normaliser, inner, saved.out), kv


def grouped(q: jax.Array, kv_heads: int) -> jax.Array:
    """[batch, tokens, heads, head_dim] -> [batch, kv_heads, group, tokens, head_dim]."""
    batch, length, heads, head_dim = q.shape
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads do not divide into {kv_heads} key/value heads.")
    return q.reshape(batch, length, kv_heads, heads // kv_heads, head_dim).transpose(0, 2, 3, 1, 4)


def ungrouped(x: jax.Array) -> jax.Array:
    """[batch, kv_heads, group, tokens, head_dim] -> [batch, tokens, heads, head_dim]."""
    batch, kv_heads, group, length, head_dim = x.shape
    return x.transpose(0, 3, 1, 2, 4).reshape(batch, length, kv_heads * group, head_dim)


def stacked(k: jax.Array, v: jax.Array) -> jax.Array:
    """Keys and values [batch, tokens, kv_heads, head_dim] as one array [2, batch, kv_heads, tokens, head_dim]."""
    return jnp.stack([k, v]).transpose(0, 1, 3, 2, 4)


def unstacked(kv: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The inverse of `stacked`."""
    k, v = kv.transpose(0, 1, 3, 2, 4)
    return k, v


def attend(q: jax.Array, kv: jax.Array, *, causal: bool = False) -> Partial:
    """Attention to a block of keys.

    Args:
      q: [batch, kv_heads, group, query, head_dim].
      kv: [2, batch, kv_heads, key, head_dim] keys and values.
      causal: query i sees keys 0 to i, instead of all keys.
    """

    def some(first: jax.Array | int, part: jax.Array) -> Partial:
        scores = _scores(part, kv[0], first if causal else None)
        top = scores.max(axis=-1, keepdims=True)
        weights = jnp.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True)
        out = jnp.einsum("bkgqs,bksd->bkgqd", weights.astype(kv.dtype), kv[1], preferred_element_type=jnp.float32)
        return Partial(out / total, top + jnp.log(total))

    length = q.shape[3]
    if length <= _QUERIES_AT_ONCE or length % _QUERIES_AT_ONCE:
        return some(0, q)
    firsts = jnp.arange(0, length, _QUERIES_AT_ONCE)
    parts = lax.map(lambda piece: some(*piece), (firsts, _cut(q)))
    return Partial(*(_joined(x) for x in parts))


def attend_backward(queries: Queries, kv: jax.Array, *, causal: bool = False) -> tuple[jax.Array, jax.Array]:
    """Gradients of q and of kv through the scores of these queries with these keys, f32.

    Args:
      queries: queries with the statistics of the forward over all keys.
      kv: as for `attend`.
      causal: as for `attend`.
    """

    def some(first: jax.Array | int, part: Queries) -> tuple[jax.Array, jax.Array]:
        weights = jnp.exp(_scores(part.q, kv[0], first if causal else None) - part.normaliser)
        d_v = _einsum("bkgqs,bkgqd->bksd", weights.astype(kv.dtype), part.gradient)
        d_weights = _einsum("bkgqd,bksd->bkgqs", part.gradient, kv[1])
        d_scores = (weights * (d_weights - part.inner) * part.q.shape[-1] ** -0.5).astype(kv.dtype)
        d_q = _einsum("bkgqs,bksd->bkgqd", d_scores, kv[0])
        d_k = _einsum("bkgqs,bkgqd->bksd", d_scores, part.q)
        return d_q, jnp.stack([d_k, d_v])

    length = queries.q.shape[3]
    if length <= _QUERIES_AT_ONCE or length % _QUERIES_AT_ONCE:
        return some(0, queries)

    def add(d_kv: jax.Array, piece: tuple[jax.Array, Queries]) -> tuple[jax.Array, jax.Array]:
        d_q, more = some(*piece)
        return d_kv + more, d_q

    firsts = jnp.arange(0, length, _QUERIES_AT_ONCE)
    none = zeros_like(kv)
    d_kv, d_q = lax.scan(add, none, (firsts, Queries(*(_cut(x) for x in queries))))
    return _joined(d_q), d_kv


#: `attend` and `attend_backward` of this file, which run on every backend.
XLA_BLOCKS = Blocks(attend, attend_backward)


def merge(a: Partial, b: Partial) -> Partial:
    """Attention to the keys of both."""
    normaliser = jnp.logaddexp(a.normaliser, b.normaliser)
    out = a.out * jnp.exp(a.normaliser - normaliser) + b.out * jnp.exp(b.normaliser - normaliser)
    return Partial(out, normaliser)


def _einsum(equation: str, a: jax.Array, b: jax.Array) -> jax.Array:
    product: jax.Array = jnp.einsum(equation, a, b, preferred_element_type=jnp.float32)
    return product


def _scores(q: jax.Array, k: jax.Array, first: jax.Array | int | None) -> jax.Array:
    """Scores, f32; causal if `first`, the index of the first query, is given."""
    scores: jax.Array = _einsum("bkgqd,bksd->bkgqs", q, k) * q.shape[-1] ** -0.5
    if first is None:
        return scores
    query, key = (lax.broadcasted_iota(jnp.int32, scores.shape[-2:], axis) for axis in (0, 1))
    visible: jax.Array = jnp.where(key <= query + first, scores, -jnp.inf)
    return visible


def _cut(x: jax.Array) -> jax.Array:
    """[.., query, d] -> [pieces, .., query of a piece, d]"""
    *outer, length, last = x.shape
    return jnp.moveaxis(x.reshape(*outer, length // _QUERIES_AT_ONCE, _QUERIES_AT_ONCE, last), -3, 0)


def _joined(x: jax.Array) -> jax.Array:
    """The inverse of `_cut`."""
    x = jnp.moveaxis(x, 0, -3)
    *outer, pieces, length, last = x.shape
    return x.reshape(*outer, pieces * length, last)


def zeros_like(x: jax.Array) -> jax.Array:
    """f32 zeros; inside `shard_map` their type varies over the same axes as x."""
    zeros: jax.Array = lax.full_like(x, 0, jnp.float32)
    return zeros
