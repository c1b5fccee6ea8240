"""Runs a step with three collectives several times, on emulated GPUs. Argument: the number of steps."""

from __future__ import annotations

import sys

import jax
import numpy as np
from case_world import World
from jax import lax


def main() -> None:
    jax.distributed.initialize()
    world = World()

    def step(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        shifted = lax.ppermute(x, "x", [(i, (i + 1) % world.n) for i in range(world.n)])
        return shifted, lax.psum(x, "x"), lax.all_gather(x, "x")

    step.__name__ = "step"
    function = world.shard_map(step)
    operand = world.put(np.ones((world.n, 1000), np.float32))
    for _ in range(int(sys.argv[1])):
        jax.block_until_ready(function(operand))


if __name__ == "__main__":
    main()
