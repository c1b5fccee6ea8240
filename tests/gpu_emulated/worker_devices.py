"""Computations on each emulated GPU of a process, copies between each two of them, and pmap; reports what is wrong."""

from __future__ import annotations

import itertools

import jax
import numpy as np
from jax import lax
from job_runs import report

#: Elements of the arrays that are copied: one piece, and many.
SIZES = (3, 50_000)


def _wrong_computations() -> list[str]:
    wrong = []
    for device in jax.local_devices():
        values = np.arange(1000, dtype=np.float32) + device.id
        result = jax.jit(lambda x: 2 * x + 1)(jax.device_put(values, device))
        if result.devices() != {device} or not np.array_equal(result, 2 * values + 1):
            wrong.append(f"computation on {device}")
    return wrong


def _wrong_copies() -> list[str]:
    wrong = []
    for (source, target), size in itertools.product(itertools.product(jax.local_devices(), repeat=2), SIZES):
        values = np.arange(size, dtype=np.int32) * (source.id + 1)
        # The operand is the result of a computation that may still run, and the result is used at once.
        operand = jax.jit(lambda x: x + 1)(jax.device_put(values, source))
        result = jax.jit(lambda x: x * 2)(jax.device_put(operand, target))
        if result.devices() != {target} or not np.array_equal(result, 2 * (values + 1)):
            wrong.append(f"copy of {size} elements from {source} to {target}")
    return wrong


def _wrong_pmap() -> list[str]:
    devices = jax.local_devices()
    values = np.arange(len(devices) * 40, dtype=np.float32).reshape(len(devices), 40)
    result = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=devices)(values)
    return [] if np.array_equal(result, np.broadcast_to(values.sum(0), values.shape)) else ["pmap"]


def main() -> None:
    jax.distributed.initialize()
    wrong = _wrong_computations() + _wrong_copies()
    if jax.process_count() == 1:
        wrong += _wrong_pmap()
    report({"devices": len(jax.local_devices()), "all": len(jax.devices()), "wrong": wrong})


if __name__ == "__main__":
    main()
