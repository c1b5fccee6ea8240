"""Sums that jax 0.12.0.1 puts into fusions, on emulated GPUs that have NVLinks, against NumPy.

Usage: worker_fused.py. Every all-reduce must be a call of ours; in a release that fuses, it has the fusion's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World
from jax import lax
from jax.sharding import PartitionSpec as P

ROUNDS = 3
FUSES = jax.__version_info__ >= (0, 12)

#: Shape and type of a device's operand, the program, and the same in NumPy on the stacked operands.
Case = tuple[tuple[int, ...], type, Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]


def _twice(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x.sum(0) * 2 + 1, x.shape)


def _looped(x: np.ndarray) -> np.ndarray:
    for _ in range(3):
        x = np.broadcast_to(x.sum(0) / 4, x.shape)
    return x


CASES: dict[str, Case] = {
    "one-shot": ((16, 64), np.float32, lambda x: lax.psum(x * 2, "x") + 1, _twice),
    # More than 1 MiB in a group of two.
    "two-shot": ((300, 1024), np.float32, lambda x: lax.psum(x * 2, "x") + 1, _twice),
    "in-a-loop": ((8, 32), np.float32, lambda x: lax.fori_loop(0, 3, lambda _, x: lax.psum(x, "x") / 4, x), _looped),
    "smallest": ((5, 7), np.int32, lambda x: lax.pmin(x, "x"), lambda x: np.broadcast_to(x.min(0), x.shape)),
    # Several at once are pairs.
    "at-once": (
        (8, 32),
        np.float32,
        lambda x: lax.psum(x, "x") + lax.pmax(x, "x"),
        lambda x: np.broadcast_to(x.sum(0) + x.max(0), x.shape),
    ),
}


def main() -> None:
    jax.distributed.initialize()
    world = World()
    mesh = world.mesh_of(range(world.n), world.n, axes=("x",))
    for name, (shape, dtype, body, expected) in CASES.items():
        # Multiples of 1/4 whose sums are exact in every order.
        values = world.random.integers(-20, 20, (world.n, *shape))
        values = (values / 4).astype(dtype) if dtype is np.float32 else values.astype(dtype)
        function = world.shard_map(body, in_specs=P("x"), out_specs=P("x"), mesh=mesh)
        operand = world.put(values, ("x",), mesh=mesh)
        text = function.lower(operand).compile().as_text()
        calls = re.findall(r"%(\S+) = .*custom_call_target=\"xla_shmem\.all_reduce(?:_start)?\"", text)
        assert calls, f"{name}: no call of ours in:\n{text}"
        assert [call for call in calls if call.startswith("fusion") is not FUSES] == [], f"{name}: {calls}"
        assert not re.search(r" all-reduce(?:-start)?\(", text), f"{name}: {text}"
        for _ in range(ROUNDS):
            for shard in function(operand).addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), expected(values)[shard.index], err_msg=name)
    assert jnp.zeros(1).devices().pop().platform == "gpu"


if __name__ == "__main__":
    main()
