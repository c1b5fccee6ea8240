"""All-reduce and reduce-scatter beyond sums: every reduction of every type, also those that stock XLA:CPU refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import stablehlo_ops
from case_world import World, case
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

# StableHLO op -> NumPy's.
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "Xor": np.bitwise_xor,
}
LOGICAL = ("And", "Or", "Xor")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _bits(world: World, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bool":
        return world.random.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return world.random.integers(info.min, info.max, shape, dtype, endpoint=True)


def _check(world: World, terms: np.ndarray, names: list[str]) -> None:
    """All-reduce and reduce-scatter of terms (n, n * k), all in one program, against NumPy."""
    groups = [list(range(world.n))]

    def body(x: jax.Array) -> list[jax.Array]:
        total = [stablehlo_ops.all_reduce(x[0], groups, name) for name in names]
        scattered = [stablehlo_ops.reduce_scatter(x[0], groups, name) for name in names]
        return [result[None] for result in (*total, *scattered)]

    function = world.shard_map(body)
    operand = world.put(terms)
    world.uses_shmem(function, operand)
    results = function(operand)
    for name, total, scattered in zip(names, results[: len(names)], results[len(names) :], strict=True):
        expected = reduce(REDUCTIONS[name], terms)
        world.equals(total, np.broadcast_to(expected, terms.shape))
        world.equals(scattered, expected.reshape(world.n, -1))


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def every_reduction_of_every_integer_type(world: World) -> None:
    for dtype in INTEGERS:
        _check(world, _bits(world, (world.n, 17 * world.n), dtype), list(REDUCTIONS))


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def every_reduction_of_predicates(world: World) -> None:
    # For predicates XLA computes sum and max as or, prod and min as and.
    terms = _bits(world, (world.n, 64 * world.n), "bool")
    _check(world, terms, ["And", "Or", "Xor"])
    groups = [list(range(world.n))]
    function = world.shard_map(
        lambda x: [stablehlo_ops.all_reduce(x[0], groups, name)[None] for name in ("Min", "Max", "Add", "Mul")]
    )
    operand = world.put(terms)
    world.uses_shmem(function, operand)
    for name, result in zip(("And", "Or", "Or", "And"), function(operand), strict=True):
        world.equals(result, np.broadcast_to(reduce(REDUCTIONS[name], terms), terms.shape))


@case(fast=("4x1", "2x4"), slow=("8x1", "1x4"))
def groups_of_several_sizes_sum_by_themselves(world: World) -> None:
    order = [int(i) for i in world.random.permutation(world.n)]
    groups = [order[:1], order[1:3], order[3:]]
    terms = _bits(world, (world.n, 300), "int64")
    function = world.shard_map(lambda x: stablehlo_ops.all_reduce(x, groups, "Add"))
    result = world.equals_stock(function, world.put(terms), calls=1)
    expected = np.empty_like(terms)
    for group in groups:
        expected[group] = terms[group].sum(0)
    world.equals(result, expected)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def sums_and_products_of_complex_numbers(world: World) -> None:
    for dtype in ("complex64", "complex128"):
        parts = world.random.integers(-3, 4, (2, world.n, 30 * world.n))
        _check(world, (parts[0] + 1j * parts[1]).astype(dtype), ["Add", "Mul"])


@case(fast=("2x1",), slow=("4x1", "2x4"))
def reductions_of_floats_pass_nan_on(world: World) -> None:
    for dtype in ("float32", "float64", "float16"):
        terms = world.random.integers(-9, 9, (world.n, 8 * world.n)).astype(dtype)
        terms[0, 3], terms[world.n - 1, 5], terms[0, 6] = np.nan, -np.inf, np.inf
        _check(world, terms, ["Min", "Max"])


@case(fast=("2x1", "4x1"), slow=("2x4",))
def partitioner_inserts_logical_reductions(world: World) -> None:
    for dtype in ("bool", "int32"):
        terms = _bits(world, (world.n, 100), dtype)
        start = np.array([True, False, False]) if dtype == "bool" else np.array([-1, 0, 0], dtype)
        replicated = NamedSharding(world.mesh, P())
        for name, op, init in zip(LOGICAL, (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor), start, strict=True):
            function = jax.jit(lambda x, op=op, init=init: lax.reduce(x, init, op, (0,)), out_shardings=replicated)
            operand = world.put(terms)
            world.uses_shmem(function, operand, calls=1 if world.n > 1 else None)
            world.equals(function(operand), reduce(REDUCTIONS[name], terms))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def any_and_all_of_sharded_predicates_equal_stock(world: World) -> None:
    values = world.random.integers(0, 20, (world.n, 3, 40)).astype(np.int32)
    replicated = NamedSharding(world.mesh, P())
    for function in (lambda x: jnp.any(x == 7, axis=0), lambda x: jnp.all(x > 0, axis=(0, 1))):
        world.equals_stock(jax.jit(function, out_shardings=replicated), world.put(values))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def narrow_floats_are_summed_as_stock_sums_them(world: World) -> None:
    narrow = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4")

    def summed(x: jax.Array) -> list[jax.Array]:
        blocks = [x[0].astype(dtype) for dtype in narrow]
        sums = [lax.psum(block, "x") for block in blocks] + [
            lax.psum_scatter(block, "x", tiled=True) for block in blocks
        ]
        return [total.astype("float32")[None] for total in sums]

    terms = world.random.integers(-1, 2, (world.n, 8 * world.n)).astype(np.int8)
    world.equals_stock(world.shard_map(summed), world.put(terms))
