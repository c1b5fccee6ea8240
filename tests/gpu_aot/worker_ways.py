"""Compiles programs for eight described GPUs, and writes each serialised executable beside XLA's dumps.

Usage: worker_ways.py FOLDER SEED COUNT for generated programs, worker_ways.py FOLDER JOB for the training step of a
job, the fields of `TrainConfig` as JSON. XLA_FLAGS are the caller's.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from listed_programs import EVERY_OP
from programs import DEVICES

from gpu_compile.compiled_step import lowered_step
from gpu_compile.described_gpus import described_gpus
from long_context.train.config import TrainConfig

ONE = jnp.ones(1, jnp.int32)
RING = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    **EVERY_OP,
    "all_reduce": lambda x: lax.psum(x, "x"),
    "collective_permute": lambda x: lax.ppermute(x, "x", RING),
    # Groups of one device. XLA removes those of other ops.
    "one_ragged": lambda x: lax.ragged_all_to_all(x, x * 0, ONE * 0, ONE * 2, ONE * 0, ONE * 2, axis_name="o"),
    "one_broadcast": lambda x: lax.pbroadcast(x, "o", 0),
    "self_permute": lambda x: lax.ppermute(x, "x", [(i, i) for i in range(DEVICES)]),
    "some_self_permute": lambda x: lax.ppermute(x, "x", [(i, i) for i in range(DEVICES // 2)]),
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


def generated(devices: list[Any], seed: int, count: int) -> Iterator[tuple[str, Any]]:
    """Yields the name of each program, and what is to be compiled."""
    mesh = Mesh(np.array(devices).reshape(DEVICES, 1), ("x", "o"))
    draw = random.Random(seed)
    for number in range(count):
        name, body = _step(draw)
        body.__name__ = f"p{number}_{name}"
        shape = (DEVICES * DEVICES * draw.choice([1, 3, 64, 512]), draw.choice([1, 256]))
        dtype = draw.choice([jnp.float32, jnp.bfloat16, jnp.int32])
        argument = jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P("x")))
        step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
        yield body.__name__, step.lower(argument)


def main(folder: str, *what: str) -> None:
    devices = described_gpus(DEVICES, "h100", lambda module, found: None)
    if len(what) == 1:
        programs = iter([("train_step", lowered_step(TrainConfig(**json.loads(what[0])), devices))])
    else:
        programs = generated(devices, *map(int, what))
    for name, lowered in programs:
        executable = lowered.compile().runtime_executable()
        (Path(folder) / f"{name}.executable").write_bytes(executable.serialize())


if __name__ == "__main__":
    main(*sys.argv[1:])
