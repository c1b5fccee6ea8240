"""What the PEs send, and what they have to receive: computed with NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xla_shmem.bench.plan import DTYPES, Cell

Array = np.ndarray[Any, np.dtype[Any]]

_COMBINE = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a key of `DTYPES`."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bf16" else DTYPES[name][0])


def operand(cell: Cell, pe: int) -> Array:
    """What a PE sends: small whole numbers that depend on PE and place, so that data in a wrong place is seen.

    Sums are exact in every order: the values are as large as a sum over the group stays exact in the type.
    """
    dtype = numpy_dtype(cell.dtype)
    limit = 126
    if cell.reduction == "sum" and not np.issubdtype(dtype, np.integer):
        exact: int = 2 ** (ml_dtypes.finfo(dtype).nmant + 1)  # type: ignore[no-untyped-call]
        limit = max(2, min(limit, exact // cell.group + 1))
    mixed = np.arange(cell.operand_elements, dtype=np.uint32) * np.uint32(2654435761)
    mixed += np.uint32((pe + 1) * 0x9E3779B1 & 0xFFFFFFFF)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x2C1B3C6D)
    return ((mixed >> np.uint32(8)) % np.uint32(limit)).astype(dtype)


def unwritten(cell: Cell) -> Array:
    """A result buffer before anything is received: a value that no operand has."""
    return np.full(cell.result_elements, 127, numpy_dtype(cell.dtype))


def expected(cell: Cell, pe: int) -> Array:
    """What a PE has to receive, when groups are neighbours: the PEs 0 … K-1, K … 2K-1, and so on."""
    first = pe // cell.group * cell.group
    place = pe - first
    if cell.op == "collective-permute":
        return operand(cell, first + (place - 1) % cell.group)
    if cell.op == "collective-broadcast":
        return operand(cell, first)
    members = range(first, first + cell.group)
    if cell.op == "all-gather":
        return np.concatenate([operand(cell, member) for member in members])
    piece = slice(place * cell.count, (place + 1) * cell.count)
    if cell.op == "all-to-all":
        return np.concatenate([operand(cell, member)[piece] for member in members])
    return _reduced(cell, members, piece if cell.op == "reduce-scatter" else slice(None))


def _reduced(cell: Cell, members: Sequence[int], piece: slice) -> Array:
    combine = _COMBINE[cell.reduction]
    # f16 and bf16 are exact in f32 here, and NumPy is slow in them. Integers wrap around as XLA's do.
    wide = np.float32 if cell.dtype in ("f16", "bf16") else numpy_dtype(cell.dtype)
    result = operand(cell, members[0])[piece].astype(wide)
    for member in members[1:]:
        result = combine(result, operand(cell, member)[piece].astype(wide))
    return result.astype(numpy_dtype(cell.dtype))


def wrong_elements(result: Array, wanted: Array) -> int:
    """Elements whose bits differ; all of them if the shapes do."""
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return max(result.size, wanted.size)
    bits = np.dtype(f"u{wanted.dtype.itemsize}")
    return int(np.count_nonzero(np.ascontiguousarray(result).view(bits) != wanted.view(bits)))
