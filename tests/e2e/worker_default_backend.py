"""Collectives that stay on the default backend. Argument: what the job does (a function below)."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World
from jax import lax
from job_runs import report


def _sum(world: World) -> tuple[Any, jax.Array]:
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    return function, world.put(np.ones((world.n, 256), np.float32))


def comes_late(world: World) -> None:
    """Rank 1 comes five seconds late to a sum."""
    function, operand = _sum(world)
    jax.block_until_ready(function(operand))
    if world.rank == 1:
        time.sleep(5)
    report({"sum": float(np.asarray(function(operand).addressable_data(0))[0, 0])})


def is_killed(world: World) -> None:
    """Rank 1 is killed while the others wait for it in a sum."""
    function, operand = _sum(world)
    jax.block_until_ready(function(operand))
    if world.rank == 1:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    jax.block_until_ready(function(operand))


def _programs(world: World) -> dict[str, tuple[Any, tuple[jax.Array, ...]]]:
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]
    rows = world.put(world.random.standard_normal((world.n * world.n, 24)).astype(np.float32))
    other = world.put(world.random.integers(-9, 9, (world.n * world.n, 24)).astype(np.int32))

    def every_op(x: jax.Array, y: jax.Array) -> Any:
        gathered = lax.all_gather(x, "x", tiled=True)
        scattered = lax.psum_scatter(gathered * 2, "x", tiled=True)
        exchanged = lax.all_to_all(scattered, "x", 0, 0, tiled=True)
        return lax.ppermute(exchanged, "x", pairs) + lax.pmax(x, "x"), lax.psum((x, y, x.astype(jnp.bfloat16)), "x")

    def loops(x: jax.Array, y: jax.Array) -> Any:
        def step(i: jax.Array, carry: jax.Array) -> jax.Array:
            moved = lax.ppermute(carry, "x", pairs)
            return lax.cond(i % 2 == 0, lambda v: lax.psum(v, "x") * 0.25, lambda v: v + 1, moved)

        return lax.fori_loop(0, 5, step, x), lax.psum(y, "x")

    def reads_before_and_behind(x: jax.Array, y: jax.Array) -> Any:
        total = lax.psum(x, "x")
        return jnp.sin(x) @ x.T, total, total @ jnp.ones((24, 24)), x + 1, jnp.cumsum(y) + lax.psum(y, "x").sum()

    def many(x: jax.Array, y: jax.Array) -> Any:
        return [lax.all_gather(jnp.tanh(x * i), "x").sum(0) * y for i in range(12)]

    bodies = {body.__name__: body for body in (every_op, loops, reads_before_and_behind, many)}
    functions = {name: world.shard_map(body) for name, body in bodies.items()}
    return {name: (function, (rows, other)) for name, function in functions.items()}


def _bits(results: Any) -> list[bytes]:
    return [np.asarray(shard.data).tobytes() for leaf in jax.tree.leaves(results) for shard in leaf.addressable_shards]


def _donates(world: World, function: Any) -> dict[str, Any]:
    # JAX may have put NumPy's own memory on the device, which it does not donate.
    donated = jax.jit(lambda x: x + 1)(world.put(np.ones((world.n * 4, 64), np.float32)))
    compiled = function.lower(donated).compile()
    place = donated.addressable_data(0).unsafe_buffer_pointer()
    result = jax.block_until_ready(compiled(donated))
    return {
        "is deleted": donated.is_deleted(),
        "takes the memory": result.addressable_data(0).unsafe_buffer_pointer() == place,
        "aliased bytes": compiled.memory_analysis().alias_size_in_bytes,
    }


def runs_programs(world: World) -> None:
    """Reports of several programs the calls that record, whether the bits are stock JAX's, and memory on both."""
    from xla_shmem import plugin

    def step(x: jax.Array) -> jax.Array:
        return lax.all_gather(x, "x", tiled=True)[: x.shape[0]] + x

    for name, (function, operands) in _programs(world).items():
        lowered = jax.jit(function).lower(*operands)
        ours = lowered.compile()
        with plugin.stock_collectives():
            stock = lowered.compile(compiler_options={"xla_cpu_collective_timeout_seconds": 60})
        expected = _bits(stock(*operands))
        report(
            {
                "name": name,
                "calls": ours.as_text().count('custom_call_target="xla_shmem.begin"'),
                "equal": [_bits(ours(*operands)) == expected for _ in range(3)],
                "bytes": [one.memory_analysis().temp_size_in_bytes for one in (ours, stock)],
            }
        )
    donated = _donates(world, jax.jit(world.shard_map(step), donate_argnums=0))
    with plugin.stock_collectives():
        stock_donated = _donates(world, jax.jit(world.shard_map(lambda x: step(x)), donate_argnums=0))
    report({"name": "donation", "ours": donated, "stock": stock_donated})


if __name__ == "__main__":
    if sys.argv[2:] == ["rank 1 records nothing"] and os.environ["XLA_SHMEM_LOCAL_RANK"] == "1":
        os.environ["XLA_SHMEM_DEFAULT_RECORDS"] = "off"
    jax.distributed.initialize()
    globals()[sys.argv[1]](World())
