"""Batches as arrays sharded over the mesh: each process reads only the tokens of its own devices."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import NamedSharding
from numpy.typing import NDArray

from long_context.train.windows import Pair, Windows

_Index = tuple[slice, ...]


class Feed:
    """Inputs and targets of each step, [batch, sequence] int32.

    Args:
      windows: the tokens of each step.
      sharding: sharding of inputs and targets.
      order: [sequence] positions in the order in which the context axis holds them.
    """

    def __init__(self, windows: Windows, sharding: NamedSharding, order: NDArray[np.intp]) -> None:
        self._windows = windows
        self._sharding = sharding
        self._order = order

    def at(self, step: int) -> tuple[jax.Array, jax.Array]:
        """Inputs and targets (the inputs shifted by one token) of a step."""
        shape = (self._windows.batch, self._windows.sequence)
        read: dict[tuple[tuple[int, int, int], ...], Pair] = {}

        def part(index: _Index | None) -> Pair:
            assert index is not None  # None would mean the whole array, unsharded
            # Devices along the tensor axis hold the same tokens; targets are read together with their inputs.
            rows, columns = (each.indices(size) for each, size in zip(index, shape, strict=True))
            if (rows, columns) not in read:
                read[rows, columns] = self._windows.read(step, range(*rows), self._order[slice(*columns)])
            return read[rows, columns]

        inputs = jax.make_array_from_callback(shape, self._sharding, lambda index: part(index)[0])
        targets = jax.make_array_from_callback(shape, self._sharding, lambda index: part(index)[1])
        return inputs, targets
