"""Collectives of emulated GPUs with NVLink SHARP, against NumPy; each is run `ROUNDS` times by its own program.

Usage: worker_multimem.py. Cases of `IN_SWITCH` are done by the switch, those of `BESIDE_IT` are not: their group is not
all GPUs, or the switch lacks their type or operation. Those of `GATHERED` go through it if there are four GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from case_world import World
from jax import lax
from jax.sharding import PartitionSpec as P

ROUNDS = 3
ELEMENTS = 3000
#: An operand of more than 64 KiB, which does not go in packets, and is no multiple of 16 bytes.
GATHERED_ELEMENTS = 35_001

# Operand type and the program on a shard, whose result is compared with `_expected`.
Program = tuple[np.dtype, Callable[[jax.Array], jax.Array]]
IN_SWITCH: dict[str, Program] = {
    "f32": (np.dtype(np.float32), lambda x: lax.psum(x, ("a", "b"))),
    "bf16": (np.dtype(ml_dtypes.bfloat16), lambda x: lax.psum(x, ("a", "b"))),
    "s32": (np.dtype(np.int32), lambda x: lax.psum(x, ("a", "b"))),
    "s32-max": (np.dtype(np.int32), lambda x: lax.pmax(x, ("a", "b"))),
    "scattered": (np.dtype(np.float32), lambda x: lax.psum_scatter(x, ("a", "b"), scatter_dimension=1, tiled=True)),
}
BESIDE_IT: dict[str, Program] = {
    "s8": (np.dtype(np.int8), lambda x: lax.psum(x, ("a", "b"))),
    "f32-max": (np.dtype(np.float32), lambda x: lax.pmax(x, ("a", "b"))),
}
GATHERED: dict[str, Program] = {
    "gathered": (np.dtype(ml_dtypes.bfloat16), lambda x: lax.all_gather(x, ("a", "b"), tiled=True)),
}
# With more than two GPUs.
OF_SOME: dict[str, Program] = {
    "f32-of-some": (np.dtype(np.float32), lambda x: lax.psum(x, "b")),
    "scattered-of-some": (np.dtype(np.float32), lambda x: lax.psum_scatter(x, "b", scatter_dimension=1, tiled=True)),
}


def _expected(name: str, values: np.ndarray) -> np.ndarray:
    wide = values.astype(np.float64) if values.dtype.kind in "fV" else values
    if name.endswith("-of-some"):
        pairs = wide.reshape(-1, 2, wide.shape[1]).sum(1)
        if name.startswith("scattered"):
            return pairs.reshape(2 * len(pairs), -1)
        return np.repeat(pairs, 2, 0)
    if name == "gathered":
        return np.tile(wide, (len(wide), 1))
    if name == "scattered":
        return wide.sum(0).reshape(len(wide), -1)
    reduced = wide.max(0) if name.endswith("-max") else wide.sum(0, dtype=wide.dtype)
    return np.broadcast_to(reduced, wide.shape)


def main() -> None:
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    world = World()
    mesh = world.mesh_of(range(world.n), world.n // 2, 2, axes=("a", "b"))
    for name, (dtype, body) in (IN_SWITCH | BESIDE_IT | GATHERED | (OF_SOME if world.n > 2 else {})).items():
        elements = GATHERED_ELEMENTS if name in GATHERED else ELEMENTS
        # Multiples of 1/4 whose sums are exact in every order.
        values = (world.random.integers(-20, 20, (world.n, elements)) / (4 if dtype.kind in "fV" else 1)).astype(dtype)
        spec = P(("a", "b"))
        function = world.shard_map(body, in_specs=spec, out_specs=spec, mesh=mesh)
        operand = world.put(values, ("a", "b"), mesh=mesh)
        want = _expected(name, values)
        for _ in range(ROUNDS):
            for shard in function(operand).addressable_shards:
                got = np.asarray(shard.data)
                np.testing.assert_array_equal(got, want[shard.index].astype(dtype), err_msg=name)
    assert jnp.zeros(1).devices().pop().platform == "gpu"


if __name__ == "__main__":
    main()
