"""A ring that sends nothing, for measuring what the ring's transfers cost a step: `xla-shmem compare` only.

Every rank attends to its own block in each step of the ring instead of to the one that would have come: as much
arithmetic, on the same shapes, without a transfer. Losses mean nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
from jax import lax

from xla_shmem.parallel import ring_attention


def _keep(block: jax.Array, axis_name: str) -> jax.Array:
    # The barrier keeps XLA from seeing that it is the same block, and from doing equal arithmetic once.
    kept: jax.Array = lax.optimization_barrier(block)  # type: ignore[no-untyped-call]
    return kept


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """The rings of programs that are traced in here are silent."""
    send = ring_attention._send
    ring_attention._send = _keep
    try:
        yield
    finally:
        ring_attention._send = send
