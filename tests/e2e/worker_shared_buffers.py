"""A permute of a large array, and a forked child that writes to its result; reports where arrays lie and what came.

Argument: elements of a shard. Report: "files": how many files of buffers are mapped; "in_file": whether operand, result
and an array of NumPy lie in one; "wrong": elements of the result that differ, after the child; "child": whether the
child saw the result and wrote its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import jax
import numpy as np
from case_world import World
from jax import lax
from job_runs import report


def _files() -> list[range]:
    """Where files of buffers are mapped."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "xla_shmem_buffers" in line]
    return [range(*(int(end, 16) for end in line[0].split("-"))) for line in lines]


def _array_at(address: int, elements: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * elements).from_address(address), np.float32)


def main() -> None:
    jax.distributed.initialize()
    elements = int(sys.argv[1])
    world = World()
    own = np.full((world.n, elements), 1, np.float32)
    operand = world.shard_map(lambda x: x + lax.axis_index("x"))(world.put(own))
    ring = [(i, (i + 1) % world.n) for i in range(world.n)]
    result = jax.block_until_ready(world.shard_map(lambda x: lax.ppermute(x, "x", ring))(operand))
    arrays = [array.addressable_shards[0].data.unsafe_buffer_pointer() for array in (operand, result)]
    expected = 1 + (world.rank - 1) % world.n
    seen = _array_at(arrays[1], elements)
    child = os.fork()
    if child == 0:
        saw = bool((seen == expected).all())
        seen[:] = -1
        os._exit(0 if saw and (seen == -1).all() else 1)
    _, status = os.waitpid(child, 0)
    files = _files()
    report(
        {
            "files": len(files),
            "in_file": [any(address in file for file in files) for address in (*arrays, own.ctypes.data)],
            "wrong": int((seen != expected).sum()),
            "child": status == 0,
        }
    )


if __name__ == "__main__":
    main()
