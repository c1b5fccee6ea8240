"""Causal attention over a sequence that is sharded over a mesh axis, by gathering all keys and values.

Simpler than a ring: after one all-gather every rank computes attention for its own queries. The forward drops the
gathered keys and values, the backward gathers them again; their gradients are reduce-scattered.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from long_context.parallel.attention_blocks import (
    XLA_BLOCKS,
    Axis,
    Blocks,
    Partial,
    Queries,
    Saved,
    grouped,
    merge,
    named,
    stacked,
    start_backward,
    ungrouped,
    unstacked,
    zeros_like,
)

Order = Literal["contiguous", "zigzag"]

_TOKENS = 3  # axis of [2, batch, kv_heads, key, head_dim] and of [batch, kv_heads, group, query, head_dim]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def gathered_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, axis_name: Axis, order: Order = "zigzag", blocks: Blocks = XLA_BLOCKS
) -> jax.Array:
    """Causal attention over a sequence distributed along `axis_name`; call it inside `shard_map`.

    Only visible blocks are computed. So in contiguous order the last rank has most of the work, in zig-zag order all
    ranks have the same.

    Args:
      q: [batch, local, heads, head_dim] queries, already rotated.
      k: [batch, local, kv_heads, head_dim] keys, already rotated; `heads` is a multiple of `kv_heads`.
      v: [batch, local, kv_heads, head_dim] values.
      axis_name: mesh axis of the sequence, or several axes, outermost first.
      order: order in which the ranks hold the sequence.
      blocks: who computes attention to a block.

    Returns:
      [batch, local, heads, head_dim] in the type of `q`. Scores, sums and reduced gradients are f32.

    Raises:
      ValueError: `local` is odd in zig-zag order, or `heads` is not a multiple of `kv_heads`.
    """
    return _forward(q, k, v, axis_name, order, blocks)[0]


class _Layout(NamedTuple):
    """The chunks of the whole sequence, and those of this rank's queries."""

    chunk: int  # tokens
    own: tuple[jax.Array, ...]  # positions of this rank's chunks in the sequence, in chunks
    ring: int
    order: Order

    def first_row(self, place: jax.Array) -> jax.Array:
        """First row among the gathered tokens of the chunk at position `place` of the sequence."""
        if self.order == "contiguous":
            return place * self.chunk
        return jnp.where(place < self.ring, 2 * place, 2 * (2 * self.ring - 1 - place) + 1) * self.chunk


def _layout(local: int, axis_name: Axis, order: Order) -> _Layout:
    ring, rank = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if order == "contiguous":
        return _Layout(local, (rank,), ring, order)
    if local % 2:
        raise ValueError(f"zig-zag order needs two equal halves on every rank, got {local} tokens.")
    return _Layout(local // 2, (rank, 2 * ring - 1 - rank), ring, order)


def _gather(kv: jax.Array, axis_name: Axis) -> jax.Array:
    whole: jax.Array = lax.all_gather(kv, axis_name, axis=_TOKENS, tiled=True)
    return whole


def _forward(
    q: jax.Array, k: jax.Array, v: jax.Array, axis_name: Axis, order: Order, blocks: Blocks
) -> tuple[jax.Array, Saved]:
    layout = _layout(q.shape[1], axis_name, order)
    queries, kv = grouped(q, k.shape[2]), stacked(k, v)
    whole = _gather(kv, axis_name)

    def keys(place: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(whole, layout.first_row(place), layout.chunk, axis=_TOKENS)

    parts = []
    for place, part in zip(layout.own, jnp.split(queries, len(layout.own), axis=_TOKENS), strict=True):

        def add(earlier: jax.Array, partial: Partial, part: jax.Array = part) -> Partial:
            return merge(partial, blocks.attend(part, keys(earlier)))

        parts.append(lax.fori_loop(0, place, add, blocks.attend(part, keys(place), causal=True)))
    out, normaliser = (jnp.concatenate(x, axis=_TOKENS) for x in zip(*parts, strict=True))
    saved = named(Saved(queries, kv, out.astype(q.dtype), normaliser))
    return ungrouped(saved.out), saved


def _backward(
    axis_name: Axis, order: Order, blocks: Blocks, saved: Saved, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    layout = _layout(gradient.shape[1], axis_name, order)
    queries, kv = start_backward(saved, gradient)
    whole = _gather(kv, axis_name)
    pieces = zip(*(jnp.split(x, len(layout.own), axis=_TOKENS) for x in queries), strict=True)
    d_whole = zeros_like(whole)
    d_queries = []
    for place, part in zip(layout.own, (Queries(*piece) for piece in pieces), strict=True):

        def add(
            earlier: jax.Array, sums: tuple[jax.Array, jax.Array], part: Queries = part, causal: bool = False
        ) -> tuple[jax.Array, jax.Array]:
            d_q, d_whole = sums
            row = layout.first_row(earlier)
            block = lax.dynamic_slice_in_dim(whole, row, layout.chunk, axis=_TOKENS)
            more_q, more_kv = blocks.attend_backward(part, block, causal=causal)
            so_far = lax.dynamic_slice_in_dim(d_whole, row, layout.chunk, axis=_TOKENS)
            return d_q + more_q, lax.dynamic_update_slice_in_dim(d_whole, so_far + more_kv, row, axis=_TOKENS)

        d_q, d_whole = lax.fori_loop(0, place, add, add(place, (zeros_like(part.q), d_whole), causal=True))
        d_queries.append(d_q)
    own: jax.Array = lax.psum_scatter(  # type: ignore[no-untyped-call]
        d_whole, axis_name, scatter_dimension=_TOKENS, tiled=True
    )
    d_k, d_v = unstacked(own.astype(kv.dtype))
    return ungrouped(jnp.concatenate(d_queries, axis=_TOKENS).astype(gradient.dtype)), d_k, d_v


gathered_attention.defvjp(_forward, _backward)
