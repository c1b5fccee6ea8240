"""The cases of tests/e2e on GPUs: what is left on NCCL is reported instead of run, and each run is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from case_world import World
from executed_collectives import NOTHING, OURS, Expected, LeftOnNccl, expected_of


class NeedsStock(Exception):
    """A case has no check besides that against stock JAX, whose collectives between GPUs are NCCL's."""


# Cases that check the results of `equals_stock` against NumPy too.
_CHECKED_WITH_NUMPY = ("groups_of_several_sizes_sum_by_themselves",)


class Ledger:
    """The collectives that the compiled modules of this process announce for the runs so far."""

    def __init__(self) -> None:
        self.expected: Expected = NOTHING

    def jit(self, function: Callable[..., Any], **options: Any) -> CountedFunction:
        """`jax.jit` whose runs are entered here."""
        return CountedFunction(_JIT(function, **options), self)


_JIT = jax.jit


class CountedFunction:
    """A jitted function. Before each run its module's collectives are added to the ledger."""

    def __init__(self, function: Any, ledger: Ledger) -> None:
        self._function = function
        self._ledger = ledger
        self._expected: dict[Any, Expected] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = str(jax.tree.map(lambda x: (jax.typeof(x), getattr(x, "sharding", None)), arguments))
        if key not in self._expected:
            text = self._function.lower(*arguments).compile().as_text()
            self._expected[key] = expected_of(text)
        self._ledger.expected += self._expected[key]
        return self._function(*arguments)

    def lower(self, *arguments: Any) -> CountedLowered:
        return CountedLowered(self._function.lower(*arguments), self._ledger)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class CountedLowered:
    """What `lower` returns, with `compile` counted."""

    def __init__(self, lowered: Any, ledger: Ledger) -> None:
        self._lowered = lowered
        self._ledger = ledger

    def compile(self, **options: Any) -> CountedExecutable:
        return CountedExecutable(self._lowered.compile(**options), self._ledger)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lowered, name)


class CountedExecutable:
    """An executable whose runs are entered in the ledger."""

    def __init__(self, compiled: Any, ledger: Ledger) -> None:
        self._compiled = compiled
        self._ledger = ledger

    def __call__(self, *arguments: Any) -> Any:
        self._ledger.expected += expected_of(self._compiled.as_text())
        return self._compiled(*arguments)

    def as_text(self) -> str:
        text = self._compiled.as_text()
        expected_of(text)  # a case must not judge a module that cannot run here
        return text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _bits_of(values: np.ndarray) -> np.dtype:
    size = values.dtype.itemsize
    return np.dtype(f"u{size}" if size <= 8 else f"V{size}")


class GpuWorld(World):
    """A `World` of GPUs.

    XLA:GPU has its own combiners, and a permute or sum may become a pair of calls, so the number of calls that a case
    expects of XLA:CPU does not hold here; that every collective is on NVSHMEM does.
    """

    def __init__(self, case: str) -> None:
        super().__init__()
        self._case = case

    def equals_stock(self, function: Any, *arguments: Any, **checks: Any) -> Any:
        expected_of(function.lower(*arguments).compile().as_text())
        if self._case in _CHECKED_WITH_NUMPY:
            return function(*arguments)
        raise NeedsStock

    def equals(self, result: jax.Array, expected: np.ndarray) -> None:
        """Checks every local shard bit for bit, but for the payload of a NaN, which GPUs do not keep."""
        for shard in result.addressable_shards:
            got, want = np.asarray(shard.data), np.asarray(expected[shard.index], result.dtype)
            nan = (got != got) & (want != want)
            assert got.shape == want.shape, f"{shard.index} has shape {got.shape}, expected {want.shape}"
            wrong = np.flatnonzero(~nan & (got.view(_bits_of(got)) != want.view(_bits_of(want))))
            assert not wrong.size, f"element {wrong[0]}: {got.ravel()[wrong[0]]} instead of {want.ravel()[wrong[0]]}"

    def _check_calls(self, text: str, calls: int | None, left: Sequence[str]) -> None:
        if left:
            raise LeftOnNccl(", ".join(left))
        expected_of(text)
        if self.n > 1 and calls != 0:
            assert OURS.search(text), f"no call of ours in:\n{text}"
