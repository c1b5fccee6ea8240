"""Rings that keep their blocks, for measuring what the ring's transfers cost a step: `xla-shmem compare` only.

Every rank attends to its own block in each step of the ring instead of to the one that would have come: as much
arithmetic, on the same shapes, without the transfer. Losses mean nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import jax
from jax import lax

from xla_shmem.compare.ring_kinds import Ring
from xla_shmem.parallel import ring_attention

_Send = Callable[[jax.Array, str], jax.Array]


@contextlib.contextmanager
def traced_as(ring: Ring) -> Iterator[None]:
    """The rings of programs that are traced in here are of this kind."""
    send: _Send = ring_attention._send
    twins: dict[Ring, _Send] = {
        Ring.SENDING: send,
        Ring.WAITING: lambda block, axis_name: _keep_but_one(block, axis_name, send),
        Ring.SILENT: lambda block, axis_name: _keep(block),
    }
    ring_attention._send = twins[ring]  # type: ignore[assignment]  # mypy minds the names of its parameters
    try:
        yield
    finally:
        ring_attention._send = send  # type: ignore[assignment]


def _keep(block: jax.Array) -> jax.Array:
    # The barrier keeps XLA from seeing that it is the same block, and from doing equal arithmetic once.
    kept: jax.Array = lax.optimization_barrier(block)  # type: ignore[no-untyped-call]
    return kept


def _keep_but_one(block: jax.Array, axis_name: str, send: _Send) -> jax.Array:
    """The block with the first element of the one that would have come, for which a rank has to wait as for all of it.

    Costs a copy of the block, which the transfer makes too.
    """
    first = (0,) * block.ndim
    element = send(lax.slice(block, first, (1,) * block.ndim), axis_name)
    return lax.dynamic_update_slice(_keep(block), element, first)
