"""Causal ring attention: exact attention over a sequence that is sharded over a mesh axis.

Every rank keeps its queries. Blocks of keys and values travel round the ring with `lax.ppermute` while partial softmax
results are merged online (Liu, Zaharia, Abbeel: "Ring Attention with Blockwise Transformers", arXiv:2310.01889). The
backward sends the blocks round again; behind each block travels the sum of its gradients, which ends at the block's
owner. That makes `ring - 1` permutes of keys and values forward, as many backward, and `ring - 1` of gradients. No
step of attention needs a transfer that starts in the same step.

The sequence is in zig-zag order (`zigzag.py`). In a block of another rank only two of the four pairs of halves are
visible, both completely:

    block of an earlier rank:   low x low    and   high x low
    block of a later rank:      high x high  and   high x low

So every rank has the same work in every ring step and needs a mask only for its own block.
"""

from __future__ import annotations

import functools

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
)

_KEYS = 3  # axis of a block [2, batch, kv_heads, key, head_dim]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def ring_attention(q: jax.Array, k: jax.Array, v: jax.Array, axis_name: Axis, blocks: Blocks = XLA_BLOCKS) -> jax.Array:
    """Causal attention over a sequence in zig-zag order along `axis_name`; call it inside `shard_map`.

    Args:
      q: [batch, local, heads, head_dim] queries, already rotated.
      k: [batch, local, kv_heads, head_dim] keys, already rotated; `heads` is a multiple of `kv_heads`.
      v: [batch, local, kv_heads, head_dim] values.
      axis_name: mesh axis of the sequence, or several axes, outermost first.
      blocks: who computes attention to a block.

    Returns:
      [batch, local, heads, head_dim] in the type of `q`. Scores, sums and travelling gradients are f32.

    Raises:
      ValueError: `local` is odd, or `heads` is not a multiple of `kv_heads`.
    """
    return _forward(q, k, v, axis_name, blocks)[0]


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, axis_name: Axis, blocks: Blocks) -> tuple[jax.Array, Saved]:
    if q.shape[1] % 2:
        raise ValueError(f"ring attention needs two equal halves on every rank, got {q.shape[1]} tokens.")
    queries = grouped(q, k.shape[2])
    own = block = stacked(k, v)
    q_low, q_high = jnp.split(queries, 2, axis=3)
    ring, rank = lax.axis_size(axis_name), lax.axis_index(axis_name)
    low: Partial | None = None
    high: Partial | None = None
    for step in range(ring):
        # Nothing below needs the next block, so its transfer overlaps with the attention to this block.
        following = _send(block, axis_name) if step + 1 < ring else block
        kv_low, kv_high = jnp.split(block, 2, axis=_KEYS)
        if low is None or high is None:
            both = blocks.attend(_together(q_low, q_high), jnp.concatenate([kv_low, kv_high], axis=1), causal=True)
            low, high = _apart(both)
            high = merge(high, blocks.attend(q_high, kv_low))
        else:
            earlier = _came_from_earlier(rank, step)
            both = blocks.attend(_visible_queries(earlier, q_low, q_high), _visible_keys(earlier, kv_low, kv_high))
            always, other = _apart(both)
            high = merge(high, always)
            merged = merge(_select(earlier, low, high), other)
            low, high = _select(earlier, merged, low), _select(earlier, high, merged)
        block = following
    assert low is not None
    assert high is not None
    out = jnp.concatenate([low.out, high.out], axis=3).astype(q.dtype)
    normaliser = jnp.concatenate([low.normaliser, high.normaliser], axis=3)
    saved = named(Saved(queries, own, out, normaliser))
    return ungrouped(saved.out), saved


def _backward(
    axis_name: Axis, blocks: Blocks, saved: Saved, gradient: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    ring, rank = lax.axis_size(axis_name), lax.axis_index(axis_name)
    queries, block = start_backward(saved, gradient)
    low, high = (Queries(*half) for half in zip(*(jnp.split(x, 2, axis=3) for x in queries), strict=True))
    own = passing = d_low = d_high = jnp.zeros(())
    for step in range(ring):
        following = _send(block, axis_name) if step + 1 < ring else block
        # The sum of the gradients of this block from all ranks that had it before.
        arriving = _send(passing, axis_name) if step > 1 else jnp.zeros(())
        kv_low, kv_high = jnp.split(block, 2, axis=_KEYS)
        if step == 0:
            both = Queries(*map(_together, low, high))
            d_q, d_kv = blocks.attend_backward(both, jnp.concatenate([kv_low, kv_high], axis=1), causal=True)
            (d_low, d_high), (d_kv_low, d_kv_high) = jnp.split(d_q, 2), jnp.split(d_kv, 2, axis=1)
            d_q, d_kv = blocks.attend_backward(high, kv_low)
            d_high += d_q
            own = jnp.concatenate([d_kv_low + d_kv, d_kv_high], axis=_KEYS)
        else:
            earlier = _came_from_earlier(rank, step)
            both = Queries(*(_visible_queries(earlier, *halves) for halves in zip(low, high, strict=True)))
            d_q, d_kv = blocks.attend_backward(both, _visible_keys(earlier, kv_low, kv_high))
            (always_q, other_q), (always_kv, other_kv) = jnp.split(d_q, 2), jnp.split(d_kv, 2, axis=1)
            d_low += jnp.where(earlier, other_q, 0)
            d_high += always_q + jnp.where(earlier, 0, other_q)
            d_kv_low = always_kv + jnp.where(earlier, other_kv, 0)
            d_kv_high = jnp.where(earlier, 0, other_kv)
            passing = arriving + jnp.concatenate([d_kv_low, d_kv_high], axis=_KEYS)
        block = following
    if ring > 1:
        own += _send(passing, axis_name)
    d_k, d_v = unstacked(own.astype(saved.kv.dtype))
    return ungrouped(jnp.concatenate([d_low, d_high], axis=3).astype(saved.q.dtype)), d_k, d_v


ring_attention.defvjp(_forward, _backward)


def _send(block: jax.Array, axis_name: Axis) -> jax.Array:
    """Sends the block to the next rank and returns the block of the previous rank."""
    ring = lax.axis_size(axis_name)
    pairs = [(source, (source + 1) % ring) for source in range(ring)]
    received: jax.Array = lax.ppermute(block, axis_name, pairs)  # type: ignore[no-untyped-call]
    return received


def _came_from_earlier(rank: jax.Array, step: int) -> jax.Array:
    """Whether this step's block belongs to an earlier rank: it is that of rank (rank - step) mod ring."""
    return rank >= step


def _together(a: jax.Array, b: jax.Array) -> jax.Array:
    """Two independent operands as one batch: half the operations to compile and to launch."""
    return jnp.concatenate([a, b])


def _apart(both: Partial) -> tuple[Partial, Partial]:
    out, normaliser = (jnp.split(x, 2) for x in both)
    return Partial(out[0], normaliser[0]), Partial(out[1], normaliser[1])


def _visible_queries(earlier: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Queries of both visible pairs of halves: the high half always, and one that depends on the block."""
    return _together(high, jnp.where(earlier, low, high))


def _visible_keys(earlier: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Keys and values of both visible pairs of halves."""
    return jnp.concatenate([low, jnp.where(earlier, low, high)], axis=1)


def _select(condition: jax.Array, if_true: Partial, if_false: Partial) -> Partial:
    return Partial(*(jnp.where(condition, a, b) for a, b in zip(if_true, if_false, strict=True)))
