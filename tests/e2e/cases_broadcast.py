"""collective-broadcast, which stock XLA:CPU cannot run, because it has no thunk for it."""

from __future__ import annotations

import jax
import numpy as np
import stablehlo_ops
from case_world import World, case
from cases_permute import TYPES, random_bits


def _check(world: World, groups: list[list[int]], shape: tuple[int, ...] = (33,), dtype: str = "float32") -> None:
    values = random_bits(world, (world.n, *shape), dtype)
    function = world.shard_map(lambda x: stablehlo_ops.broadcast(x, groups))
    operand = world.put(values)
    world.uses_shmem(function, operand, calls=1)
    expected = np.zeros_like(values)
    for group in groups:
        expected[group] = values[group[0]]
    for _ in range(2):
        world.equals(function(operand), expected)


@case(fast=("2x1", "4x1", "2x4"), slow=("8x1", "1x4"))
def broadcast_reaches_everybody_from_any_root(world: World) -> None:
    for root in {0, 1, world.n - 1}:
        _check(world, [[root, *(i for i in range(world.n) if i != root)]])


@case(fast=("4x1", "2x4"), slow=("8x1", "1x4"))
def broadcast_in_groups_leaves_zeros_where_there_is_none(world: World) -> None:
    order = [int(i) for i in world.random.permutation(world.n)]
    half = world.n // 2
    _check(world, [order[:half], order[half:]])
    _check(world, [order[: world.n - 1]])
    _check(world, [order[1:3]])


@case(fast=("2x1",), slow=("4x1",))
def broadcast_of_any_size_and_type_arrives(world: World) -> None:
    groups = [list(range(world.n))[::-1]]
    for size in (1, 4097, 1 << 20):
        _check(world, groups, (size,), "uint8")
    for dtype in TYPES:
        if dtype != "bfloat16":  # XLA:CPU widens it, and has no rule to do so for this op
            _check(world, groups, (37,), dtype)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def broadcast_in_a_loop_hands_the_root_around(world: World) -> None:
    values = world.random.integers(0, 99, (world.n, 50)).astype(np.int32)
    turns = [[list(np.roll(range(world.n), -root))] for root in range(world.n)]

    def body(x: jax.Array) -> jax.Array:
        def step(_: jax.Array, v: jax.Array) -> jax.Array:
            for groups in turns:
                v = stablehlo_ops.broadcast(v, groups) + v
            return v

        return jax.lax.fori_loop(0, 3, step, x)

    function = world.shard_map(body)
    operand = world.put(values)
    world.uses_shmem(function, operand, calls=world.n)
    expected = values
    for _ in range(3):
        for root in range(world.n):
            expected = expected + expected[root]
    world.equals(function(operand), expected)
