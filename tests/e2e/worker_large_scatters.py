"""Sums of two members each, scattered, several times at once in one process that has called jax.distributed.initialize.

Arguments: bytes of a result, and most runs. Reports the number of runs, and in how many results each was wrong; the
first wrong run is the last.
"""

from __future__ import annotations

import sys

import jax
import numpy as np
from case_world import World
from jax import lax
from job_runs import report


def main() -> None:
    bytes_of_result, most = map(int, sys.argv[1:])
    jax.distributed.initialize()
    world = World()
    pairs = np.arange(world.n).reshape(-1, 2)
    values = world.random.integers(-99, 99, (world.n, bytes_of_result // 2)).astype(np.float32)
    scatter = world.shard_map(
        lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, axis_index_groups=pairs.tolist(), tiled=True)
    )
    expected = np.concatenate([np.stack(np.split(values[pair].sum(0), 2)) for pair in pairs])
    operand = world.put(values)
    wrong: list[int] = []
    while len(wrong) < most and not any(wrong):
        shards = scatter(operand).addressable_shards
        right = [np.array_equal(np.asarray(shard.data), expected[shard.index[0]]) for shard in shards]
        wrong.append(right.count(False))
    report({"wrong": wrong})


if __name__ == "__main__":
    main()
