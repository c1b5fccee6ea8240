"""Runs programs that stock XLA:CPU refuses, and reports of each its error, or whether its results are right.

Arguments: names of programs, functions below.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import numpy as np
import stablehlo_ops
from case_world import World
from cases_ragged import exchange, put_exchange, send
from job_runs import report

_Program = tuple[Callable[..., jax.Array], list[jax.Array], np.ndarray]


def ragged_all_to_all(world: World) -> _Program:
    moved = exchange(world, [list(range(world.n))], 40, (5,), "float32")
    return send, put_exchange(world, moved), moved.expected


def collective_broadcast(world: World) -> _Program:
    values = world.random.integers(0, 99, (world.n, 50)).astype(np.float32)
    last_first = [list(range(world.n))[::-1]]
    expected = np.broadcast_to(values[-1], values.shape)
    return lambda x: stablehlo_ops.broadcast(x, last_first), [world.put(values)], expected


def _reduction(world: World, name: str, combine: Any, scatter: bool = False) -> _Program:
    values = world.random.integers(0, 1 << 30, (world.n, 12 * world.n)).astype(np.int32)
    collective = stablehlo_ops.reduce_scatter if scatter else stablehlo_ops.all_reduce
    total = reduce(combine, values)
    expected = total.reshape(world.n, -1) if scatter else np.broadcast_to(total, values.shape)
    return (
        lambda x: collective(x[0], [list(range(world.n))], name)[None],
        [world.put(values)],
        expected,
    )


def all_reduce_by_xor(world: World) -> _Program:
    return _reduction(world, "Xor", np.bitwise_xor)


def all_reduce_by_and_of_integers(world: World) -> _Program:
    return _reduction(world, "And", np.bitwise_and)


def reduce_scatter_by_or_of_integers(world: World) -> _Program:
    return _reduction(world, "Or", np.bitwise_or, scatter=True)


def main() -> None:
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    for name in sys.argv[1:]:
        world = World()
        body, operands, expected = globals()[name](world)
        error = ""
        try:
            world.equals(world.shard_map(body)(*operands), expected)
        except Exception as failed:
            error = f"{type(failed).__name__}: {failed}"
        report({"case": name, "error": error})


if __name__ == "__main__":
    main()
