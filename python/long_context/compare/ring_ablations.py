"""Rings that keep their blocks, to measure what the transfers of a ring cost. Only `xla-shmem compare` uses them.

In each step of the ring a rank attends to its own block instead of the next one: the same arithmetic on the same
shapes, without the transfer. The losses are meaningless.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import jax
from jax import lax

from long_context.compare.ring_kinds import Ring
from long_context.parallel import ring_attention

_Send = Callable[[jax.Array, str], jax.Array]


@contextlib.contextmanager
def traced_as(ring: Ring) -> Iterator[None]:
    """Inside this context programs are traced with rings of this kind."""
    send: _Send = ring_attention._send
    sends: dict[Ring, _Send] = {
        Ring.SENDING: send,
        Ring.WAITING: lambda block, axis_name: _keep_all_but_one(block, axis_name, send),
        Ring.SILENT: lambda block, axis_name: _keep(block),
    }
    ring_attention._send = sends[ring]  # type: ignore[assignment]  # mypy compares the names of parameters too
    try:
        yield
    finally:
        ring_attention._send = send  # type: ignore[assignment]


def _keep(block: jax.Array) -> jax.Array:
    # Without the barrier XLA would see that the block is the same and merge equal arithmetic.
    kept: jax.Array = lax.optimization_barrier(block)  # type: ignore[no-untyped-call]
    return kept


def _keep_all_but_one(block: jax.Array, axis_name: str, send: _Send) -> jax.Array:
    """The block with the first element of the next block, for which the rank has to wait.

    Costs a copy of the block; a transfer makes one too.
    """
    first = (0,) * block.ndim
    element = send(lax.slice(block, first, (1,) * block.ndim), axis_name)
    return lax.dynamic_update_slice(_keep(block), element, first)
