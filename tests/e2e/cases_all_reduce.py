"""all-reduce under shard_map and from the partitioner: types, reductions, sizes, sub-groups, combined all-reduces."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_permute import ring
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

FLOATS = ("float32", "float64")
HALVES = ("bfloat16", "float16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def numbers(world: World, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = jax.dtypes.canonicalize_dtype(dtype)
    if jnp.issubdtype(kind, jnp.integer):
        info = jnp.iinfo(kind)
        return world.random.integers(info.min, info.max, shape, kind, endpoint=True)
    return world.random.uniform(-2, 2, shape).astype(kind)


def rounded_once(terms: np.ndarray, combine: np.ufunc) -> np.ndarray:
    """Folds axis 0 in order, in f32, and rounds at the end."""
    result = terms[0].astype(np.float32)
    for term in terms[1:]:
        result = combine(result, term.astype(np.float32))
    return result.astype(terms.dtype)


def _check_typed(world: World, dtype: str) -> None:
    terms = numbers(world, (world.n, 1031), dtype)
    psum = world.shard_map(lambda x: (lax.psum(x, "x"), lax.pmax(x, "x"), lax.pmin(x, "x")), out_specs=(P(), P(), P()))
    # There is no pprod: the partitioner makes one from a reduction over the sharded dimension.
    product = jax.jit(
        lambda x: lax.reduce(x, np.ones((), x.dtype), lax.mul, (0,)), out_shardings=NamedSharding(world.mesh, P())
    )
    operand = world.put(terms)
    world.uses_shmem(psum, operand)
    world.uses_shmem(product, operand, calls=1)
    total, largest, smallest = (value.reshape(-1) for value in psum(operand))
    world.equals(largest, terms.max(0))
    world.equals(smallest, terms.min(0))
    prod = product(operand)
    world.same_on_all_ranks(total)
    world.same_on_all_ranks(prod)
    if dtype in FLOATS:
        world.sums_to(total, terms)
        # Each of the n-1 roundings has an error of eps/2 at most.
        want = terms.astype(np.longdouble).prod(0)
        error = np.abs(np.asarray(prod.addressable_data(0)).astype(np.longdouble) - want)
        assert (error <= (world.n - 1) * np.finfo(dtype).eps * np.abs(want)).all()
    elif dtype in HALVES:
        world.equals(total, rounded_once(terms, np.add))
        world.equals(prod, rounded_once(terms, np.multiply))
    else:
        world.equals(total, terms.sum(0, dtype=terms.dtype))
        world.equals(prod, terms.prod(0, dtype=terms.dtype))


def _typed(dtype: str) -> None:
    @case(fast=("2x1",), slow=("4x1", "2x4", "1x4"), name=f"sum_product_minimum_maximum_of_{dtype}")
    def run(world: World) -> None:
        _check_typed(world, dtype)


for _dtype in FLOATS + HALVES + INTEGERS:
    _typed(_dtype)


def psum(world: World, **options: Any) -> Any:
    return world.shard_map(lambda x: lax.psum(x, "x"), out_specs=P(), **options)


@case(fast=("2x1", "4x1", "8x1", "2x4", "1x4", "1x1"))
def sum_is_right_at_sizes_around_every_limit(world: World) -> None:
    # Around one element, a cache line, the one-shot limit, a slot and several slots (docs/protocol.md).
    sizes = (1, 15, 16, 17, 1023, 5461, 5462, 16384, 16385, 65536, 65537, 300_001)
    for size in sizes if world.n < 8 else sizes[::3]:
        terms = numbers(world, (world.n, size), "float32")
        operand = world.put(terms)
        function = psum(world)
        world.uses_shmem(function, operand)
        world.sums_to(function(operand).reshape(-1), terms)


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def combined_sum_of_a_mixed_tree_with_tiny_and_empty_leaves(world: World) -> None:
    shapes = {"a": (7,), "empty": (0, 4), "scalar": (), "wide": (3, 5, 11), "large": (40_000,)}
    if jax.__version_info__[:2] == (0, 11):
        del shapes["empty"]  # jaxlib 0.11.2 crashes when it compiles it, also without xla-shmem
    tree = {
        f"{name}_{dtype}": numbers(world, (world.n, *shape), dtype)
        for name, shape in shapes.items()
        for dtype in ("float32", "int32", "bfloat16")
    }
    function = psum(world)
    operands = {name: world.put(terms) for name, terms in tree.items()}
    world.uses_shmem(function, operands)
    for name, result in function(operands).items():
        terms = tree[name]
        result = result.reshape(terms.shape[1:])
        if terms.dtype == np.float32:
            world.sums_to(result, terms)
        elif terms.dtype == np.int32:
            world.equals(result, terms.sum(0, dtype=np.int32))
        else:
            world.equals(result, rounded_once(terms, np.add))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def nan_infinity_and_denormals_pass_as_in_numpy(world: World) -> None:
    terms = np.full((world.n, 4), 1.5, np.float32)
    terms[world.n - 1] = [np.nan, np.inf, 1e-42, -np.inf]
    terms[0, 2] = 1e-42
    function = world.shard_map(lambda x: (lax.psum(x, "x"), lax.pmax(x, "x"), lax.pmin(x, "x")), out_specs=(P(),) * 3)
    total, largest, smallest = (np.asarray(v.addressable_data(0)).ravel() for v in function(world.put(terms)))
    np.testing.assert_array_equal(total[[0, 1, 3]], terms.sum(0)[[0, 1, 3]])
    np.testing.assert_array_equal(largest, terms.max(0))
    np.testing.assert_array_equal(smallest, terms.min(0))


@case(fast=("4x1",), slow=("2x4", "1x4", "8x1"))
def each_axis_of_a_two_dimensional_mesh_sums_by_itself(world: World) -> None:
    mesh = world.mesh_of(range(world.n), 2, world.n // 2, axes=("a", "b"))
    terms = numbers(world, (2, world.n // 2, 501), "float64")
    operand = world.put(terms, "a", "b", mesh=mesh)
    for axis, name in enumerate("ab"):
        spec = P("a", "b")
        function = world.shard_map(lambda x, name=name: lax.psum(x, name), in_specs=spec, mesh=mesh)
        world.uses_shmem(function, operand, calls=1)
        expected = np.broadcast_to(terms.sum(axis, keepdims=True), terms.shape)
        for shard in function(operand).addressable_shards:
            np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-15, atol=1e-15)
    function = world.shard_map(lambda x: lax.psum(x, ("a", "b")), in_specs=P("a", "b"), out_specs=P(), mesh=mesh)
    world.sums_to(function(operand).reshape(-1), terms.reshape(world.n, -1))


@case(fast=("4x1",), slow=("2x4", "1x4"))
def both_axes_in_one_program_do_not_mix(world: World) -> None:
    mesh = world.mesh_of(range(world.n), 2, world.n // 2, axes=("a", "b"))
    terms = numbers(world, (2, world.n // 2, 64), "int32")
    function = world.shard_map(
        lambda x: (lax.psum(x, "a"), lax.psum(x, "b"), lax.pmax(lax.psum(x, "a"), "b")), in_specs=P("a", "b"), mesh=mesh
    )
    operand = world.put(terms, "a", "b", mesh=mesh)
    over_a, over_b, both = function(operand)
    rows = terms.sum(0, keepdims=True, dtype=np.int32)
    world.equals(over_a, np.broadcast_to(rows, terms.shape))
    world.equals(over_b, np.broadcast_to(terms.sum(1, keepdims=True, dtype=np.int32), terms.shape))
    world.equals(both, np.broadcast_to(rows.max(1, keepdims=True), terms.shape))


@case(fast=("4x1",), slow=("2x4", "8x1"))
def groups_chosen_by_index_sum_by_themselves(world: World) -> None:
    order = [int(i) for i in world.random.permutation(world.n)]
    groups = [order[: world.n // 2], order[world.n // 2 :]]
    terms = numbers(world, (world.n, 129), "int64")
    function = world.shard_map(lambda x: lax.psum(x, "x", axis_index_groups=groups))
    operand = world.put(terms)
    world.uses_shmem(function, operand, calls=1)
    expected = np.empty_like(terms)
    for group in groups:
        expected[group] = terms[group].sum(0)
    world.equals(function(operand), expected)


@case(fast=("2x1", "4x1", "2x4"))
def partitioner_inserts_sums_for_a_contracted_dimension(world: World) -> None:
    left = world.random.integers(-8, 8, (24, 16 * world.n)).astype(np.float32)
    right = world.random.integers(-8, 8, (16 * world.n, 40)).astype(np.float32)
    function = jax.jit(jnp.matmul, out_shardings=NamedSharding(world.mesh, P()))
    operands = world.put(left, None, "x"), world.put(right, "x", None)
    world.uses_shmem(function, *operands, calls=1)
    result = function(*operands)
    world.equals(result, left @ right)  # small integers: exact in any order
    world.same_on_all_ranks(result)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def partitioner_inserts_permutes_for_a_shifted_sharded_dimension(world: World) -> None:
    values = world.random.integers(0, 1 << 30, 40 * world.n).astype(np.int32)
    function = jax.jit(lambda x: jnp.roll(x, 3), out_shardings=NamedSharding(world.mesh, P("x")))
    operand = world.put(values)
    world.uses_shmem(function, operand)
    world.equals(function(operand), np.roll(values, 3))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def operand_used_again_is_not_overwritten(world: World) -> None:
    terms = numbers(world, (world.n, 20_000), "int32")
    function = world.shard_map(lambda x: (x + lax.psum(x, "x"), x * 3))
    operand = world.put(terms)
    world.uses_shmem(function, operand)
    both, tripled = function(operand)
    world.equals(both, terms + terms.sum(0, dtype=np.int32))
    world.equals(tripled, terms * np.int32(3))
    world.equals(operand, terms)


def _many(count: int, fast: tuple[str, ...], slow: tuple[str, ...]) -> None:
    @case(fast=fast, slow=slow, name=f"{count}_independent_collectives_in_one_program")
    def run(world: World) -> None:
        terms = numbers(world, (world.n, count, 50), "int32")

        def body(x: jax.Array) -> jax.Array:
            # Chains of different lengths before them, so that they become ready in any order.
            parts = []
            for i in range(count):
                part = x[:, i]
                for _ in range(i % 4):
                    part = lax.optimization_barrier(part ^ 5)
                parts.append(lax.psum(part, "x") if i % 3 else lax.ppermute(part, "x", ring(world.n)))
            return jnp.stack(parts, 1)

        function = world.shard_map(body)
        operand = world.put(terms)
        flipped = terms.copy()
        for i in range(count):
            flipped[:, i] ^= 5 * (i % 4 % 2)
        expected = np.broadcast_to(flipped.sum(0, dtype=np.int32), terms.shape).copy()
        expected[:, ::3] = np.roll(flipped[:, ::3], 1, 0)
        # XLA combines the sums into one call, and does not combine the permutes.
        world.uses_shmem(function, operand, calls=count // 3 + 1)
        for _ in range(5):
            world.equals(function(operand), expected)


_many(90, fast=("2x1",), slow=("2x4",))
_many(300, fast=(), slow=("2x1", "4x1"))
