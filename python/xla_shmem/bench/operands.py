"""Operands and expected results, computed with NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xla_shmem.bench.plan import DTYPES, Cell

Array = np.ndarray[Any, np.dtype[Any]]

_COMBINE = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns the NumPy dtype of a key of `DTYPES`."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bf16" else DTYPES[name][0])


def operand(cell: Cell, pe: int) -> Array:
    """Returns the operand of a PE: small whole numbers that depend on PE and index, so that misplaced data is found.

    The values are so small that a sum over the group is exact in the type, in every order.
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
    """Returns the initial content of a result buffer: a value that no operand has."""
    return np.full(cell.result_elements, 127, numpy_dtype(cell.dtype))


def expected(cell: Cell, pe: int) -> Array:
    """Returns the expected result of a PE. Groups are neighbours: PEs 0 … K-1, K … 2K-1, and so on."""
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
    if cell.op in ("all-to-all", "ragged-all-to-all"):
        return np.concatenate([operand(cell, member)[piece] for member in members])
    return _reduced(cell, members, piece if cell.op == "reduce-scatter" else slice(None))


def _reduced(cell: Cell, members: Sequence[int], piece: slice) -> Array:
    combine = _COMBINE[cell.reduction]
    # f32 is exact for these values of f16 and bf16, and much faster in NumPy. Integers wrap around as in XLA.
    wide = np.float32 if cell.dtype in ("f16", "bf16") else numpy_dtype(cell.dtype)
    result = operand(cell, members[0])[piece].astype(wide)
    for member in members[1:]:
        result = combine(result, operand(cell, member)[piece].astype(wide))
    return result.astype(numpy_dtype(cell.dtype))


def wrong_elements(result: Array, wanted: Array) -> int:
    """Returns the number of elements whose bits differ; all elements if shape or dtype differs."""
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return max(result.size, wanted.size)
    bits = np.dtype(f"u{wanted.dtype.itemsize}")
    return int(np.count_nonzero(np.ascontiguousarray(result).view(bits) != wanted.view(bits)))
