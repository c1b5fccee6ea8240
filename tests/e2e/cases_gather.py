"""all-gather, reduce-scatter and all-to-all one by one: every dimension, type and size, compared with stock JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from case_world import World, case
from cases_permute import TYPES, random_bits
from jax import lax
from jax.sharding import PartitionSpec as P

# XLA:CPU widens types that it cannot compute with before it moves them, so these come in other types (docs/design.md).
NARROW = ["int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]


def small_integers(world: World, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Values whose sums are exact in any order."""
    return world.random.integers(-9, 9, (world.n, *shape)).astype(jax.dtypes.canonicalize_dtype(dtype))


def each(world: World, *bodies: Callable[[jax.Array], jax.Array]) -> Any:
    """One program with all bodies, each on a device's own block of the operand; the results are stacked by device."""
    return world.shard_map(lambda x: tuple(body(x[0])[None] for body in bodies))


@case(fast=("2x1", "4x1", "2x4"), slow=("8x1", "1x4"))
def gathers_along_each_dimension(world: World) -> None:
    bodies = [
        lambda x, d=d, tiled=tiled: lax.all_gather(x, "x", axis=d, tiled=tiled)
        for d in range(3)
        for tiled in (False, True)
    ]
    operand = world.put(random_bits(world, (world.n, 5, 3, 7), "int32"))
    world.equals_stock(each(world, *bodies), operand, calls=len(bodies) if world.n > 1 else None, times=3)


@case(fast=("2x1", "4x1", "2x4"), slow=("8x1", "1x4"))
def scatters_along_each_dimension(world: World) -> None:
    n = world.n
    bodies = [lambda x, d=d: lax.psum_scatter(x, "x", scatter_dimension=d, tiled=True) for d in range(3)]
    bodies += [lambda x: lax.psum_scatter(x[:, :n, :n], "x", scatter_dimension=1)]
    operand = world.put(small_integers(world, 2 * n, n, 3 * n))
    world.equals_stock(each(world, *bodies), operand, calls=len(bodies) if n > 1 else None, times=3)


@case(fast=("2x1", "4x1", "2x4"), slow=("8x1", "1x4"))
def exchanges_between_each_two_dimensions(world: World) -> None:
    n = world.n
    # XLA makes n slices of each, so the larger jobs do fewer.
    pairs = [(a, b) for a in range(3) for b in range(3) if n <= 4 or a + b == 2]
    bodies = [lambda x, a=a, b=b: lax.all_to_all(x, "x", a, b, tiled=True) for a, b in pairs]
    bodies += [lambda x: lax.all_to_all(x[:, :n], "x", 1, 0)]
    operand = world.put(random_bits(world, (n, n, 2 * n, 3 * n), "int16"))
    world.equals_stock(each(world, *bodies), operand, times=3)


def _typed(dtype: str) -> None:
    @case(fast=("2x1",), slow=("4x1", "2x4"), name=f"gather_and_exchange_keep_every_bit_of_{dtype}")
    def run(world: World) -> None:
        values = random_bits(world, (world.n, world.n, 37), dtype)
        function = each(world, lambda x: lax.all_gather(x, "x"), lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True))
        gathered, exchanged = world.equals_stock(function, world.put(values))
        world.equals(gathered, np.broadcast_to(values, (world.n, *values.shape)))
        world.equals(exchanged, values.swapaxes(0, 1))


for _dtype in TYPES:
    _typed(_dtype)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def narrow_types_move_as_stock_moves_them(world: World) -> None:
    def moved(x: jax.Array) -> tuple[jax.Array, ...]:
        narrow = [x[0].astype(dtype) for dtype in NARROW]
        moved = [lax.all_gather(block, "x") for block in narrow]
        moved += [lax.all_to_all(block, "x", 0, 0, tiled=True) for block in narrow]
        return tuple(block.astype("float32")[None] for block in moved)

    values = world.random.integers(0, 8, (world.n, world.n, 16)).astype(np.int8)
    world.equals_stock(world.shard_map(moved), world.put(values), calls=2 * len(NARROW) if world.n > 1 else None)


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def scattered_sums_of_every_type(world: World) -> None:
    for dtype in ("float64", "float16", "int8", "uint16", "int64", "complex64", "complex128", "bfloat16"):
        values = small_integers(world, 3 * world.n, 5, dtype=dtype)
        function = each(world, lambda x: lax.psum_scatter(x, "x", tiled=True))
        world.equals_stock(function, world.put(values), calls=1 if world.n > 1 else None)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def scattered_sums_of_any_numbers_differ_by_rounding_only(world: World) -> None:
    for dtype, within in (("float32", 1e-6), ("float64", 1e-14), ("complex64", 1e-6)):
        values = world.random.standard_normal((world.n, 50 * world.n)).astype(dtype)
        function = each(world, lambda x: lax.psum_scatter(x, "x", tiled=True))
        world.equals_stock(function, world.put(values), within=world.n * within)


@case(fast=("2x1", "4x1"), slow=("8x1", "2x4", "1x4"))
def sizes_around_every_limit_are_right(world: World) -> None:
    # Around one element, a cache line, the one-shot limit, a slot and several slots (docs/protocol.md).
    n = world.n
    for size in (1, 16, 1023, 5461, 16385, 65537):
        operand = world.put(small_integers(world, n * size))
        function = each(
            world,
            lambda x, size=size: lax.all_gather(x[:size], "x"),
            lambda x: lax.psum_scatter(x, "x", tiled=True),
            lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
        )
        left = ["reduce-scatter"] if 4 * size >= 1 << 20 else []
        left += ["all-to-all"] if 4 * n * size >= 1 << 20 else []
        world.equals_stock(function, operand, left=left)


@case(fast=("2x1", "4x1"), slow=("2x4",))
def empty_arrays_are_no_trouble(world: World) -> None:
    function = each(
        world,
        lambda x: lax.all_gather(x, "x"),
        lambda x: lax.psum_scatter(x, "x", tiled=True),
        lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
    )
    operand = world.put(np.zeros((world.n, 2 * world.n, 0), np.float32))
    world.equals_stock(function, operand, calls=0)  # XLA removes them


@case(fast=("2x1",), slow=("4x1", "2x4"))
def results_at_a_limit_stay_on_gloo(world: World) -> None:
    # `OPS` lists all-to-all and reduce-scatter below 1 MiB.
    if world.n == 1:
        return
    elements = (1 << 20) // 4
    at_limit, below = small_integers(world, elements), small_integers(world, elements - world.n)
    for values, left in ((at_limit, ["all-to-all"]), (below, [])):
        exchange = each(world, lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True))
        world.uses_shmem(exchange, world.put(values), calls=1 - len(left), left=left)
    at_limit, below = small_integers(world, elements * world.n), small_integers(world, (elements - 1) * world.n)
    for values, left in ((at_limit, ["reduce-scatter"]), (below, [])):
        scatter = each(world, lambda x: lax.psum_scatter(x, "x", tiled=True))
        world.uses_shmem(scatter, world.put(values), calls=1 - len(left), left=left)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def gathered_results_are_equal_on_all_ranks(world: World) -> None:
    values = random_bits(world, (world.n, 1000), "float32")
    function = world.shard_map(lambda x: lax.all_gather(x, "x", tiled=True), out_specs=P())
    result = function(world.put(values))
    world.equals(result, values)
    world.same_on_all_ranks(result)
