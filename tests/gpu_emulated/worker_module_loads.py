"""A GPU loads code late, while others could run collectives.

Argument: "first": GPU 2's thread comes late to the first run of a loop of sums of GPUs 0 and 1, and of 2 and 3. "next":
GPUs 2 and 3 take no part in the second run of such a loop, and go on to another program. "library": two processes of
two GPUs. GPU 1 of the first and 0 of the second come late to a product, for which cuBLAS loads code, between sums of
one GPU of each process. Reports the values on the first GPU of the process.
"""

from __future__ import annotations

import sys
import threading
import time

import jax
import numpy as np
from case_world import World
from jax import lax
from job_runs import report

ROUNDS = 1500
HALVES = [[0, 1], [2, 3]]
PAIRS = [(0, 1), (1, 0), (2, 3), (3, 2)]


def _busy(world: World, seconds: float) -> None:
    """Keeps the thread of GPU 2 from other programs."""

    def wait(values: np.ndarray, device: np.ndarray) -> np.ndarray:
        if device == 0:
            time.sleep(seconds)
        return np.asarray(values)

    def body(x: jax.Array) -> jax.Array:
        return jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x, lax.axis_index("x"))

    mesh = world.mesh_of([2, 3])
    function = world.shard_map(body, mesh=mesh)
    threading.Thread(target=lambda: function(world.put(np.zeros((2, 3), np.float32), mesh=mesh))).start()
    time.sleep(seconds / 3)


def _loop(x: jax.Array) -> jax.Array:
    def step(_: int, value: jax.Array) -> jax.Array:
        return lax.psum(lax.ppermute(value, "x", PAIRS), "x", axis_index_groups=HALVES) / 2

    return lax.fori_loop(0, ROUNDS, step, x)


def _loop_of_two(x: jax.Array) -> jax.Array:
    return lax.cond(lax.axis_index("x") < 2, _loop, lambda value: value, x)


def _product_between_sums(x: jax.Array) -> jax.Array:
    def late(values: np.ndarray, device: np.ndarray) -> np.ndarray:
        if device in (1, 2):
            time.sleep(3)
        return np.asarray(values)

    columns = [[0, 2], [1, 3]]
    first = lax.psum(x, "x", axis_index_groups=columns)
    square = jax.pure_callback(late, jax.ShapeDtypeStruct(x.shape, x.dtype), first, lax.axis_index("x"))
    return lax.psum((square[0] @ square[0])[None] / 64, "x", axis_index_groups=columns)


def main() -> None:
    world = World()
    if sys.argv[1] == "library":
        ones = world.put(np.ones((world.n, 64, 64), np.float32))
        result = world.shard_map(_product_between_sums)(ones)
        report({"values": sorted({float(value) for value in np.asarray(result.addressable_shards[0].data).flat})})
        return
    operand = world.put(np.arange(world.n * 3, dtype=np.float32).reshape(world.n, 3))
    results = []
    if sys.argv[1] == "first":
        _busy(world, 3)
        results.append(world.shard_map(_loop)(operand))
    else:
        function = world.shard_map(_loop_of_two)
        jax.block_until_ready(function(operand))
        other = world.shard_map(lambda x: lax.psum(x, "x", axis_index_groups=HALVES) + 7)
        results += [function(operand), other(operand)]
    report({"values": [np.asarray(result.addressable_shards[0].data).tolist() for result in results]})


if __name__ == "__main__":
    main()
