"""Writes or loads a serialised executable of a program with a permute and a sum.

Arguments: `write` or `load`, and the file (`{rank}` in it stands for the rank).
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import jax
import numpy as np
from case_world import World
from jax import lax
from jax.experimental import serialize_executable
from job_runs import report


def main() -> None:
    jax.distributed.initialize()
    world = World()
    file = Path(sys.argv[2].format(rank=world.rank))
    values = np.arange(world.n * 6, dtype=np.int32).reshape(world.n, 6)
    operand = world.put(values)
    function = world.shard_map(lambda x: lax.psum(lax.ppermute(x, "x", [(0, 1), (1, 0)]), "x"))
    expected = np.broadcast_to(values[:2].sum(0, dtype=np.int32), values.shape)
    if sys.argv[1] == "write":
        file.write_bytes(pickle.dumps(serialize_executable.serialize(function.lower(operand).compile())))
        report({"loaded": False})
        return
    try:
        compiled = serialize_executable.deserialize_and_load(*pickle.loads(file.read_bytes()))
        # A rank that loaded the executable exchanges messages with one that compiled it.
        program = compiled if world.rank % 2 == 0 or "all" in sys.argv[3:] else function
        for _ in range(3):
            world.equals(program(operand), expected)
    except Exception as error:
        report({"error": str(error)})
        return
    report({"loaded": True})


if __name__ == "__main__":
    main()
