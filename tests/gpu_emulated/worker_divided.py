"""Collectives over two NVLink domains of two emulated GPUs each, against NumPy; reports the calls of SHMEM and of NCCL.

Arguments: names of programs (default: all).
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from case_world import World
from executed_collectives import OURS, Executions, left_on_nccl
from jax import lax
from job_runs import report

P = jax.P
#: What the four devices do not divide: 21 elements are ten for each of two, and one more.
ODD, EVEN = 21, 24


def _shift(x: jax.Array, axis: Any, n: int) -> jax.Array:
    return lax.ppermute(x, axis, [(i, (i + 1) % n) for i in range(n)])


def _some(x: jax.Array, axis: Any, n: int) -> jax.Array:
    """Device 0 sends to its neighbour, 1 to the other domain, 3 to itself; device 0 gets nothing."""
    return lax.ppermute(x, axis, [(0, 1), (1, 2), (3, 3)])


def _some_expected(x: np.ndarray) -> np.ndarray:
    return np.stack([np.zeros_like(x[0]), x[0], x[1], x[3]])


#: Name -> elements, the program over an axis with n devices, and what it makes of the operands of a group.
PROGRAMS: dict[str, tuple[int, Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (ODD, lambda x, axis, n: lax.psum(x, axis), lambda x: np.broadcast_to(x.sum(0), x.shape)),
    "one": (1, lambda x, axis, n: lax.psum(x, axis), lambda x: np.broadcast_to(x.sum(0), x.shape)),
    "largest": (EVEN, lambda x, axis, n: lax.pmax(x, axis), lambda x: np.broadcast_to(x.max(0), x.shape)),
    "shift": (EVEN, _shift, lambda x: np.roll(x, 1, 0)),
    "some": (EVEN, _some, _some_expected),
    "gather": (
        ODD,
        lambda x, axis, n: lax.all_gather(x[0], axis, tiled=True)[None],
        lambda x: np.broadcast_to(x.reshape(-1), (len(x), x.size)),
    ),
    "scatter": (
        EVEN,
        lambda x, axis, n: lax.psum_scatter(x[0], axis, tiled=True)[None],
        lambda x: x.sum(0).reshape(len(x), -1),
    ),
    "exchange": (
        EVEN,
        lambda x, axis, n: lax.all_to_all(x[0], axis, 0, 0, tiled=True)[None],
        lambda x: x.reshape(len(x), len(x), -1).transpose(1, 0, 2).reshape(len(x), -1),
    ),
    "broadcast": (ODD, lambda x, axis, n: lax.pbroadcast(x, axis, 1), lambda x: np.broadcast_to(x[1], x.shape)),
    "loop": (
        ODD,
        lambda x, axis, n: lax.fori_loop(0, 3, lambda i, x: lax.psum(x, axis) % 5, x),
        lambda x: functools.reduce(lambda x, _: np.broadcast_to(x.sum(0) % 5, x.shape), range(3), x),
    ),
    "beside": (
        EVEN,
        lambda x, axis, n: lax.psum(x, axis) + (x.reshape(6, 4) @ x.reshape(4, 6))[0, 0] * 0,
        lambda x: np.broadcast_to(x.sum(0), x.shape),
    ),
}


def main() -> None:
    names = sys.argv[1:] or list(PROGRAMS)
    executions = Executions()
    jax.distributed.initialize()
    world = World()
    calls = ctypes.CDLL("libnccl.so.2").ncclEmulatorCalls
    calls.restype = ctypes.c_uint64
    # Domain after domain, and a device of each in turn.
    meshes = {"rows": world.mesh_of(range(4)), "turns": world.mesh_of([0, 2, 1, 3])}
    for name in names:
        elements, program, expected = PROGRAMS[name]
        for order, mesh in meshes.items():
            for dtype in (np.float32, jax.numpy.bfloat16):
                values = world.random.integers(0, 9, (4, elements)).astype(dtype)
                operand = world.put(values, mesh=mesh)
                body = functools.partial(program, axis="x", n=4)
                compiled = world.shard_map(body, mesh=mesh).lower(operand).compile()
                ran, before = executions.count, calls()
                shards = compiled(operand).addressable_shards
                want = expected(values.astype(np.float32)).astype(dtype)
                wrong = [shard.index[0].start for shard in shards if not np.array_equal(shard.data, want[shard.index])]
                text = compiled.as_text()
                report(
                    {
                        "program": name,
                        "order": order,
                        "type": np.dtype(dtype).name,
                        "wrong": wrong,
                        "left": sorted(left_on_nccl(text)),
                        "parts": sorted(OURS.findall(text)),
                        "shmem": executions.count - ran,
                        "nccl": calls() - before,
                    }
                )


if __name__ == "__main__":
    main()
