"""The zig-zag order of a sequence on the ranks of a ring.

With contiguous slices causal attention would leave the first ranks idle. Here rank `r` holds two of `2 * ring` equal
chunks, chunk `r` (its *low* half) and chunk `2 * ring - 1 - r` (its *high* half), as in Llama 3 (arXiv:2407.21783,
section 3.3.2). So every rank attends to the same number of keys.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Index = TypeVar("_Index", bound=Any)


def zigzag_positions(index: _Index, sequence: int, ring: int) -> _Index:
    """Positions of the tokens at `index` (an integer array, traced or not) of a sequence in zig-zag order.

    Raises:
      ValueError: `sequence` is not a multiple of `2 * ring`.
    """
    if sequence % (2 * ring):
        raise ValueError(f"sequence {sequence} does not divide into 2 x {ring} zig-zag chunks.")
    half = sequence // (2 * ring)
    chunk, within = index // half, index % half
    rank, high = chunk // 2, chunk % 2
    return (rank + high * (2 * ring - 1 - 2 * rank)) * half + within  # type: ignore[no-any-return]


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
    order: NDArray[np.intp] = zigzag_positions(np.arange(sequence), sequence, ring)
    return order
