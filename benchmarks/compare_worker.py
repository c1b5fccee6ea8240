"""A rank of `compare_installs`: measures the collectives that lines on stdin name.

    python compare_worker.py COORDINATOR RANKS RANK ANSWERS

ANSWERS is the descriptor of a pipe, because a version of the plugin may log to stdout.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import parallel
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

COORDINATOR, RANKS, RANK, ANSWERS = sys.argv[1], *map(int, sys.argv[2:5])

#: Collectives in one program, one after the other.
LOOPS = 20


def collective(op: str) -> Callable[[jax.Array], jax.Array]:
    """Returns the collective on a device's block."""
    ring = [(rank, (rank + 1) % RANKS) for rank in range(RANKS)]
    of_op: dict[str, Callable[[Any], Any]] = {
        "collective-permute": lambda x: lax.ppermute(x, "x", ring),  # type: ignore[no-untyped-call]
        "all-reduce": lambda x: lax.psum(x, "x"),  # type: ignore[no-untyped-call]
        "all-gather": lambda x: lax.all_gather(x, "x", tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),  # type: ignore[no-untyped-call]
        "all-to-all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),  # type: ignore[no-untyped-call]
        "collective-broadcast": lambda x: lax.pbroadcast(x, "x", 0),  # type: ignore[no-untyped-call]
        "ragged-all-to-all": ragged,
    }
    return of_op[op]


def ragged(x: jax.Array) -> jax.Array:
    """A ragged all-to-all that moves what an all-to-all does."""
    part = x.shape[0] // RANKS
    starts, sizes = jnp.arange(RANKS) * part, jnp.full(RANKS, part)
    mine = jnp.full(RANKS, lax.axis_index("x") * part)
    moved: jax.Array = lax.ragged_all_to_all(  # type: ignore[no-untyped-call]
        x, jnp.zeros_like(x), starts, sizes, mine, sizes, axis_name="x"
    )
    return moved


def block(rank: int, elements: int) -> np.ndarray:
    """Returns the operand of a rank: whole numbers, whose sums are exact."""
    return (np.arange(elements) % 251 + rank * 1000).astype(np.float32)


def expected(op: str, elements: int) -> np.ndarray:
    """Returns this rank's result, by NumPy."""
    blocks = np.stack([block(rank, elements) for rank in range(RANKS)])
    part = slice(RANK * elements // RANKS, (RANK + 1) * elements // RANKS)
    of_op: dict[str, Callable[[], np.ndarray]] = {
        "collective-permute": lambda: blocks[RANK - 1],
        "all-reduce": lambda: blocks.sum(0),
        "all-gather": lambda: blocks.reshape(-1),
        "reduce-scatter": lambda: blocks.sum(0)[part],
        "all-to-all": lambda: blocks[:, part].reshape(-1),
        "collective-broadcast": lambda: blocks[0],
    }
    of_op["ragged-all-to-all"] = of_op["all-to-all"]
    return of_op[op]()


@cache
def program(op: str, size: int) -> tuple[Callable[..., Any], Callable[..., Any], jax.Array]:
    """Returns a program of one collective, one of `LOOPS`, and the operand of `size` bytes a device."""
    run = collective(op)

    def again(_: int, x: jax.Array) -> jax.Array:
        # One element of the next operand is of this result: the loop can neither drop nor hoist a collective.
        return x.at[1].set(run(x).reshape(-1)[0])

    blocks: Any = P("x")  # type: ignore[no-untyped-call]

    def mapped(body: Callable[[jax.Array], jax.Array]) -> Callable[..., Any]:
        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=blocks, out_specs=blocks, check_vma=False))

    elements = size // 4
    sharding = NamedSharding(mesh, blocks)
    operand = jax.make_array_from_callback((elements * RANKS,), sharding, lambda _: block(RANK, elements))
    return mapped(run), mapped(lambda x: lax.fori_loop(0, LOOPS, again, x)), operand


# JAX lowers no broadcast for CPU, because XLA:CPU cannot compile one. The pass replaces it before that.
mlir.register_lowering(parallel.pbroadcast_p, parallel._pbroadcast_lowering, platform="cpu")  # type: ignore[attr-defined, unused-ignore]
jax.distributed.initialize(COORDINATOR, RANKS, RANK)
mesh = Mesh(np.array(sorted(jax.devices(), key=lambda device: device.process_index)), ("x",))
with os.fdopen(ANSWERS, "w") as answers:
    for line in sys.stdin:
        question = json.loads(line)
        once, looped, operand = program(question["op"], question["bytes"])
        result = np.asarray(once(operand).addressable_shards[0].data)  # also brings the ranks together
        wrong = int((result != expected(question["op"], question["bytes"] // 4)).sum())
        begin = time.perf_counter()
        for _ in range(question["runs"]):
            looped(operand).block_until_ready()
        us = (time.perf_counter() - begin) * 1e6 / question["runs"] / LOOPS
        print(json.dumps({"us": us, "wrong": wrong}), file=answers, flush=True)
