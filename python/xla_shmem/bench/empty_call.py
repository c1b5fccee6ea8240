"""The time of an FFI call that does nothing: XLA's overhead, which every transport has."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from xla_shmem import _core

_TARGET = "xla_shmem.empty"
_ELEMENTS = 1024  # 4 KiB of f32; not copied, because the result is the buffer of the operand


class EmptyCall:
    """Two compiled loops on one device of this process: one calls an empty FFI handler, the other one does not."""

    def __init__(self) -> None:
        jax.ffi.register_ffi_target(_TARGET, _core.empty_call(), platform="cpu")
        shape = jax.ShapeDtypeStruct((_ELEMENTS,), np.float32)  # type: ignore[no-untyped-call]
        call = jax.ffi.ffi_call(_TARGET, shape, input_output_aliases={0: 0}, has_side_effect=True)
        self._loops = [_loop(call), _loop(lambda x: x)]

    def us(self, turns: int, runs: int) -> float:
        """Returns µs per call: the difference between a turn of both loops, median of `runs` pairs."""
        return statistics.median(self._seconds(0, turns) - self._seconds(1, turns) for _ in range(runs)) / turns * 1e6

    def _seconds(self, loop: int, turns: int) -> float:
        x = jax.device_put(np.zeros(_ELEMENTS, np.float32), jax.local_devices()[0])
        jax.block_until_ready(x)  # type: ignore[no-untyped-call]
        start = time.perf_counter()
        jax.block_until_ready(self._loops[loop](np.int32(turns), np.False_, x))  # type: ignore[no-untyped-call]
        return time.perf_counter() - start


def _loop(call: Callable[[Any], Any]) -> Any:
    def turn(never: Any, x: Any) -> Any:
        y = call(x)
        return y.at[0].set(lax.select(never, y[1], y[0]))

    def loop(turns: Any, never: Any, x: Any) -> Any:
        return lax.fori_loop(0, turns, lambda _, x: turn(never, x), x)

    device = jax.local_devices()[0]
    with jax.default_device(device):
        x = np.zeros(_ELEMENTS, np.float32)
        compiled = jax.jit(loop, donate_argnums=2).lower(np.int32(1), np.False_, x).compile()
    return compiled
