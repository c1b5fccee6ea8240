"""Compiles generated programs for eight described GPUs, and writes each serialised executable beside XLA's dumps.

Usage: worker_ways.py FOLDER SEED COUNT. XLA_FLAGS are the caller's.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from listed_programs import EVERY_OP
from programs import DEVICES, line

from gpu_compile.described_gpus import described_gpus

RING = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    **EVERY_OP,
    "all_reduce": lambda x: lax.psum(x, "x"),
    "collective_permute": lambda x: lax.ppermute(x, "x", RING),
}


def _step(draw: random.Random) -> tuple[str, Callable[[Any], Any]]:
    """Returns the name and body of a program of one to five collectives, of which some are in a loop."""
    ops = [draw.choice(sorted(COLLECTIVES)) for _ in range(draw.randint(1, 5))]
    loops = [draw.random() < 0.2 for _ in ops]

    def body(x: Any) -> Any:
        results = []
        for number, (op, in_loop) in enumerate(zip(ops, loops, strict=True)):
            operand = x * (number + 2)
            collective = COLLECTIVES[op]
            if in_loop:
                operand = lax.fori_loop(0, 3, lambda _, y, c=collective: y + jnp.sum(c(y * 2)), operand)
            results.append(jnp.sum(collective(operand) * 3))
        return jnp.stack(results)

    return "_".join(sorted(set(ops))), body


def main(folder: str, seed: str, count: str) -> None:
    devices = described_gpus(DEVICES, "h100", lambda module, found: None)
    mesh = line(devices)
    draw = random.Random(int(seed))
    for number in range(int(count)):
        name, body = _step(draw)
        body.__name__ = f"p{number}_{name}"
        shape = (DEVICES * DEVICES * draw.choice([1, 3, 64, 512]), draw.choice([1, 256]))
        dtype = draw.choice([jnp.float32, jnp.bfloat16, jnp.int32])
        argument = jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P("x")))
        step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        executable = step.lower(argument).compile().runtime_executable()
        (Path(folder) / f"{body.__name__}.executable").write_bytes(executable.serialize())


if __name__ == "__main__":
    main(*sys.argv[1:])
