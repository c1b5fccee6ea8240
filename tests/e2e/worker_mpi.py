"""A rank of mpirun's job whose program has collectives of JAX's MPI backend and of SHMEM in turns. Reports which."""

from __future__ import annotations

import os
import re
import sys

import jax
import numpy as np
from case_world import World
from jax import lax
from jax.experimental import multihost_utils
from job_runs import report

TURNS = 20
INDEPENDENT = 24
_LEFT = re.compile(r" (all-reduce|all-gather|all-to-all|collective-permute)\(")
_OURS = re.compile(r'custom_call_target="xla_shmem\.(?!after")(\w+)"')


def _run_independent_collectives(world: World) -> None:
    n = world.n
    pairs = [(i, (i + 1) % n) for i in range(n)]
    values = world.random.integers(0, 1 << 20, (n, INDEPENDENT, n * 1000)).astype(np.int32)

    def body(x: jax.Array) -> list[jax.Array]:
        results = []
        for i in range(INDEPENDENT):
            part = x[0, i]
            for _ in range(i % 4):
                part = lax.optimization_barrier(part ^ 5)
            results.append((lax.psum(part, "x") if i % 2 else lax.ppermute(part, "x", pairs))[None])
        return results

    function = world.shard_map(body)
    operand = jax.block_until_ready(world.put(values))
    for _ in range(10 * TURNS):
        results = function(operand)
        for i, result in enumerate(results):
            part = values[:, i] ^ (5 * (i % 2))
            world.equals(result, np.broadcast_to(part.sum(0), part.shape) if i % 2 else np.roll(part, 1, 0))


def main() -> None:
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # MPI may be called by the main thread only
    jax.distributed.initialize()
    world = World()
    _run_independent_collectives(world)
    n, size = world.n, world.n * 1000
    pairs = [(i, (i + 1) % n) for i in range(n)]

    def turn(_: object, x: jax.Array) -> jax.Array:
        x = lax.ppermute(x, "x", pairs) + lax.axis_index("x")
        x = lax.all_gather(x, "x").sum(0) % 1009 + x
        x = x + lax.psum(x[:16].sum(), "x")
        return lax.all_to_all(x.reshape(n, -1), "x", 0, 0).reshape(-1) % 100_003

    values = np.arange(n * size, dtype=np.int32).reshape(n, size)
    operand = jax.block_until_ready(world.put(values))  # else XLA runs the program on another thread
    function = world.shard_map(lambda x: lax.fori_loop(0, TURNS, turn, x[0])[None])
    text = function.lower(operand).compile().as_text()
    result = function(operand)
    for _ in range(TURNS):
        values = np.roll(values, 1, 0) + np.arange(n, dtype=np.int32)[:, None]
        values = values.sum(0) % 1009 + values
        values = values + values[:, :16].sum()
        values = values.reshape(n, n, -1).transpose(1, 0, 2).reshape(n, size) % 100_003
    world.equals(result, values.astype(np.int32))
    report({"ours": sorted(set(_OURS.findall(text))), "left": sorted(set(_LEFT.findall(text)))})
    multihost_utils.sync_global_devices("all have reported")
    sys.stdout.flush()
    # JAX finalizes MPI while XLA still has communicators, and Open MPI aborts. mpirun does not like this either, so its
    # exit code says nothing.
    os._exit(0)


if __name__ == "__main__":
    main()
