"""Causal ring attention: exact attention over a sequence that is spread over a mesh axis.

Every rank keeps its queries; key/value blocks travel round the ring with `lax.ppermute` while partial softmax
results are merged online (Liu, Zaharia, Abbeel: "Ring Attention with Blockwise Transformers",
arXiv:2310.01889).

Causal attention over contiguous slices would leave the first ranks idle, so the sequence is dealt in zig-zag
order: of `2 * ring` equal chunks, rank `r` holds chunk `r` (its *low* half) and chunk `2 * ring - 1 - r` (its
*high* half), as in Llama 3 (arXiv:2407.21783, section 3.3.2). For a block that came from another rank only
two of the four pairs of halves are visible, both of them completely:

    block from an earlier rank:   low x low    and   high x low
    block from a later rank:      high x high  and   high x low

Hence every rank does the same amount of work in every ring step and needs a mask only for its own block.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray


class _Partial(NamedTuple):
    """Softmax-weighted values over some of the keys, not yet normalised."""

    weighted: jax.Array  # [batch, kv_heads, group, query, head_dim]
    total: jax.Array  # [batch, kv_heads, group, query, 1]: sum of exp(score - top)
    top: jax.Array  # [batch, kv_heads, group, query, 1]: largest score


class _Block(NamedTuple):
    """Keys and values, each [batch, kv_heads, key, head_dim]."""

    k: jax.Array
    v: jax.Array


_Halves = TypeVar("_Halves", _Partial, _Block)


def zigzag_order(sequence: int, ring: int) -> NDArray[np.intp]:
    """Positions in the order in which the ring's ranks hold them.

    Args:
      sequence: number of positions.
      ring: number of ranks.

    Returns:
      [sequence] positions; split into `ring` equal parts, part `r` is what rank `r` holds.

    Raises:
      ValueError: `sequence` is not a multiple of `2 * ring`.
    """
    if sequence % (2 * ring):
        raise ValueError(f"sequence {sequence} does not divide into 2 x {ring} zig-zag chunks.")
    chunks = np.arange(sequence).reshape(2 * ring, -1)
    return np.concatenate([chunks[[rank, 2 * ring - 1 - rank]].reshape(-1) for rank in range(ring)])


def local_positions(local: int, axis_name: str) -> jax.Array:
    """Positions of this rank's tokens, [local]; to be called inside `shard_map` over `axis_name`."""
    ring = lax.axis_size(axis_name)
    rank = lax.axis_index(axis_name)
    half = local // 2
    within = jnp.arange(half)
    return jnp.concatenate([rank * half + within, (2 * ring - 1 - rank) * half + within])


def ring_attention(q: jax.Array, k: jax.Array, v: jax.Array, *, axis_name: str) -> jax.Array:
    """Causal attention over a sequence dealt in zig-zag order along `axis_name`; call it inside `shard_map`.

    Differentiation sends the gradients of the blocks back round the ring, against the direction of the
    blocks.

    Args:
      q: [batch, local, heads, head_dim] queries, already rotated.
      k: [batch, local, kv_heads, head_dim] keys, already rotated; `heads` is a multiple of `kv_heads`.
      v: [batch, local, kv_heads, head_dim] values.
      axis_name: mesh axis that the sequence is spread over.

    Returns:
      [batch, local, heads, head_dim] in the type of `q`. Scores and sums are kept in f32.

    Raises:
      ValueError: `local` is odd, or `heads` is not a multiple of `kv_heads`.
    """
    batch, local, heads, head_dim = q.shape
    kv_heads = k.shape[2]
    if local % 2:
        raise ValueError(f"ring attention needs two equal halves on every rank, got {local} tokens.")
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads do not divide into {kv_heads} key/value heads.")
    ring = lax.axis_size(axis_name)
    rank = lax.axis_index(axis_name)
    to_next_rank = [(source, (source + 1) % ring) for source in range(ring)]

    q = q.reshape(batch, local, kv_heads, heads // kv_heads, head_dim).transpose(0, 2, 3, 1, 4)
    q_low, q_high = jnp.split(q, 2, axis=3)
    block = _Block(k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))
    low: _Partial | None = None
    high: _Partial | None = None
    for step in range(ring):
        # Nothing below needs the next block: its transfer may run while this block is attended to.
        following = _send(block, axis_name, to_next_rank) if step + 1 < ring else block
        kv_low, kv_high = _halves(block)
        if low is None or high is None:
            low, high = _attend_both((q_low, kv_low), (q_high, kv_high), causal=True)
            high = _merge(high, _attend(q_high, kv_low))
        else:
            # This block set out from rank (rank - step) mod ring, which comes earlier unless the ring wrapped
            # round.
            earlier = rank >= step
            always = (q_high, kv_low)
            other = (jnp.where(earlier, q_low, q_high), _select(earlier, kv_low, kv_high))
            from_always, from_other = _attend_both(always, other)
            high = _merge(high, from_always)
            merged = _merge(_select(earlier, low, high), from_other)
            low, high = _select(earlier, merged, low), _select(earlier, high, merged)
        block = following
    assert low is not None
    assert high is not None
    out = jnp.concatenate([low.weighted / low.total, high.weighted / high.total], axis=3)
    return out.transpose(0, 3, 1, 2, 4).reshape(batch, local, heads, head_dim).astype(q.dtype)


def _send(block: _Block, axis_name: str, pairs: list[tuple[int, int]]) -> _Block:
    received: _Block = lax.ppermute(block, axis_name, pairs)  # type: ignore[no-untyped-call]
    return received


def _halves(block: _Block) -> tuple[_Block, _Block]:
    k_low, k_high = jnp.split(block.k, 2, axis=2)
    v_low, v_high = jnp.split(block.v, 2, axis=2)
    return _Block(k_low, v_low), _Block(k_high, v_high)


def _select(condition: jax.Array, if_true: _Halves, if_false: _Halves) -> _Halves:
    return type(if_true)(*(jnp.where(condition, a, b) for a, b in zip(if_true, if_false, strict=True)))


def _attend_both(
    a: tuple[jax.Array, _Block], b: tuple[jax.Array, _Block], *, causal: bool = False
) -> tuple[_Partial, _Partial]:
    """Two independent pairs as one batch: half the operations to compile and to start."""
    q, block = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), a, b)
    partial = _attend(q, block, causal=causal)
    batch = a[0].shape[0]
    return _Partial(*(x[:batch] for x in partial)), _Partial(*(x[batch:] for x in partial))


def _attend(q: jax.Array, block: _Block, *, causal: bool = False) -> _Partial:
    """Attention of q [batch, kv_heads, group, query, head_dim] to a block, whole or up to the diagonal."""
    q = q * q.shape[-1] ** -0.5
    scores = jnp.einsum("bkgqd,bksd->bkgqs", q, block.k, preferred_element_type=jnp.float32)
    if causal:
        scores = jnp.where(jnp.tri(scores.shape[-2], scores.shape[-1], dtype=bool), scores, -jnp.inf)
    # The shift by the largest score cancels in weighted / total, so it needs no gradient.
    top = lax.stop_gradient(scores.max(axis=-1, keepdims=True))
    weights = jnp.exp(scores - top)
    weighted = jnp.einsum("bkgqs,bksd->bkgqd", weights, block.v, preferred_element_type=jnp.float32)
    return _Partial(weighted, weights.sum(axis=-1, keepdims=True), top)


def _merge(a: _Partial, b: _Partial) -> _Partial:
    top = jnp.maximum(a.top, b.top)
    scale_a, scale_b = jnp.exp(a.top - top), jnp.exp(b.top - top)
    return _Partial(a.weighted * scale_a + b.weighted * scale_b, a.total * scale_a + b.total * scale_b, top)
