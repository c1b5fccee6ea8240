"""Collectives of every kind on emulated GPUs, against NumPy; reports which ops stayed on NCCL, and SHMEM's calls.

Argument: how many rows the mesh has. Each program runs over rows, columns and all devices of the mesh.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

import jax
import numpy as np
from case_world import World
from executed_collectives import OURS, left_on_nccl
from jax import lax
from job_runs import report

P = jax.P
SIZE = 24

#: Name -> the program over one or two axes with n devices, and what it makes of the operands of a group, (n, SIZE).
PROGRAMS: dict[str, tuple[Callable[..., jax.Array], Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (lambda x, axis, n: lax.psum(x, axis), lambda x: np.broadcast_to(x.sum(0), x.shape)),
    "largest": (lambda x, axis, n: lax.pmax(x, axis), lambda x: np.broadcast_to(x.max(0), x.shape)),
    "shift": (
        lambda x, axis, n: lax.ppermute(x, axis, [(i, (i + 1) % n) for i in range(n)]),
        lambda x: np.roll(x, 1, 0),
    ),
    "gather": (
        lambda x, axis, n: lax.all_gather(x[0], axis, tiled=True)[None],
        lambda x: np.broadcast_to(x.reshape(-1), (len(x), x.size)),
    ),
    "scatter": (
        lambda x, axis, n: lax.psum_scatter(x[0], axis, tiled=True)[None],
        lambda x: x.sum(0).reshape(len(x), -1),
    ),
    "exchange": (
        lambda x, axis, n: lax.all_to_all(x[0], axis, 0, 0, tiled=True)[None],
        lambda x: x.reshape(len(x), len(x), -1).transpose(1, 0, 2).reshape(len(x), -1),
    ),
}


def _groups(rows: int, columns: int, axes: tuple[str, ...]) -> list[list[int]]:
    places = np.arange(rows * columns).reshape(rows, columns)
    groups = {"rows": places.T, "columns": places}
    return [list(group) for group in ([places.reshape(-1)] if len(axes) == 2 else groups[axes[0]])]


def counts() -> dict[str, int]:
    """What this process has done so far, as the double of NCCL counts."""
    nccl = ctypes.CDLL("libnccl.so.2")  # the one that XLA has loaded
    return {name: getattr(nccl, f"ncclEmulator{name.capitalize()}")() for name in ("calls", "puts", "windows")}


def main() -> None:
    jax.distributed.initialize()
    world, rows = World(), int(sys.argv[1])
    columns = world.n // rows
    mesh = world.mesh_of(range(world.n), rows, columns, axes=("rows", "columns"))
    for dtype in (np.float32, np.int32, np.float16, jax.numpy.bfloat16, np.uint8):
        values = world.random.integers(0, 9, (world.n, SIZE)).astype(dtype)
        operand = world.put(values, ("rows", "columns"), mesh=mesh)
        for name, (program, expected) in PROGRAMS.items():
            for axes in (("rows",), ("columns",), ("rows", "columns")):
                groups = _groups(rows, columns, axes)
                n = len(groups[0])
                if n == 1:
                    continue
                body = functools.partial(program, axis=axes, n=n)
                function = world.shard_map(body, in_specs=P(("rows", "columns")), mesh=mesh)
                text = function.lower(operand).compile().as_text()
                before = counts()
                for _ in range(3):  # with what the run before has left in the buffers
                    jax.block_until_ready(function(operand + 1))
                shards = {
                    shard.index[0].start or 0: np.asarray(shard.data) for shard in function(operand).addressable_shards
                }
                wrong = [
                    place
                    for group in groups
                    for place, want in zip(group, expected(values[group]), strict=True)
                    if place in shards and not np.array_equal(shards[place][0], want)
                ]
                report(
                    {
                        "program": name,
                        "type": np.dtype(dtype).name,
                        "axes": axes,
                        "wrong": wrong,
                        "left": sorted(left_on_nccl(text)),
                        "ours": len(OURS.findall(text)),
                        **{name: count - before[name] for name, count in counts().items()},
                    }
                )


if __name__ == "__main__":
    main()
