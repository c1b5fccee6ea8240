"""Every op inside programs: loops, branches, gradients, collectives of the partitioner, many operands, many at once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_gather import small_integers
from cases_groups import every_op
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def _mix(x: jax.Array, n: int) -> jax.Array:
    """A block (n, k) through every op and back to its shape, so that a loop can carry it."""
    gathered, scattered, exchanged, total, shifted = every_op(x, "x", n)
    return (gathered.sum(0, dtype=x.dtype) + exchanged + 3 * shifted - total) % 1009 + scattered


@case(fast=("2x1", "4x1", "2x4"), slow=("1x4", "8x1"))
def every_op_in_a_loop_stays_right(world: World) -> None:
    values = world.random.integers(0, 1000, (world.n, world.n, 21)).astype(np.int32)
    function = world.shard_map(lambda x: lax.fori_loop(0, 12, lambda _, v: _mix(v, world.n), x[0])[None])
    world.equals_stock(function, world.put(values), calls=5 if world.n > 1 else None, times=2)


@case(fast=("2x1", "4x1", "2x4"), slow=("1x4", "8x1"))
def exchanges_of_whole_arrays_in_loops_stay_right(world: World) -> None:
    """Calls read whole arrays that stock XLA would split before, also if they or other operations overwrite them."""
    n = world.n
    values = world.random.integers(0, 1000, (2, n, 4 * n, 33)).astype(np.int32)

    def exchange(v: jax.Array) -> jax.Array:
        return lax.all_to_all(v, "x", 0, 0, tiled=True)

    def in_place(v: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return exchange(v), w

    def overwritten(v: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return v.at[0].add(1), exchange(v)  # only the buffer connects the two

    def swapped(v: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return exchange(w), v + 1

    def used_again(v: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        exchanged = exchange(v)
        return exchanged + v, exchanged.max() + exchange(w)

    for body in (in_place, overwritten, swapped, used_again):
        function = world.shard_map(
            lambda v, w, body=body: tuple(x[None] for x in lax.fori_loop(0, 5, lambda _, vw: body(*vw), (v[0], w[0]))),
            in_specs=(P("x"), P("x")),
        )
        world.equals_stock(function, *map(world.put, values), times=2)


@case(fast=("2x1", "4x1", "2x4"), slow=("8x1",))
def exchanges_of_whole_arrays_are_not_split(world: World) -> None:
    values = world.random.integers(0, 1000, (world.n, world.n, 4, 33)).astype(np.int32)
    rows = (world.n * world.n * 4, 33)
    function = world.shard_map(lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True))
    operand = world.put(values.reshape(rows))
    world.equals(function(operand), values.swapaxes(0, 1).reshape(rows))
    text = function.lower(operand).compile().as_text()
    assert " slice(" not in text, text
    assert " concatenate(" not in text, text


@case(fast=("2x1",), slow=("4x1", "2x4"))
def every_op_in_a_scan_and_a_branch_stays_right(world: World) -> None:
    values = world.random.integers(0, 1000, (world.n, world.n, 8)).astype(np.int32)

    def body(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(v: jax.Array, i: jax.Array) -> tuple[jax.Array, jax.Array]:
            v = lax.cond(i % 3 == 1, lambda v: v + 1, lambda v: _mix(v, world.n), v)
            return v, lax.all_gather(v[0, :2], "x")

        carry, seen = lax.scan(step, x[0], jnp.arange(10))
        return carry[None], seen[None]

    world.equals_stock(world.shard_map(body), world.put(values))


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def gradients_flow_through_every_op(world: World) -> None:
    # All-gather and reduce-scatter are each other's transposes; the transpose of an all-to-all is an all-to-all.
    n = world.n
    values, weights = small_integers(world, n, 6), small_integers(world, n, 6)

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        def body(x: jax.Array, w: jax.Array) -> jax.Array:
            block = x[0]
            gathered = lax.all_gather(block, "x").sum(0) * w[0]
            scattered = lax.psum_scatter(block * block, "x", tiled=True)
            exchanged = lax.all_to_all(block * w[0], "x", 0, 0, tiled=True)
            return lax.psum(gathered.sum() + 2 * scattered.sum() + (exchanged * block).sum(), "x")

        return jax.shard_map(body, mesh=world.mesh, in_specs=P("x"), out_specs=P())(x, w)

    function = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    world.equals_stock(function, world.put(values), world.put(weights))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def vmap_batches_every_op(world: World) -> None:
    values = world.random.integers(0, 99, (world.n, 4, world.n, 3)).astype(np.int32)
    function = world.shard_map(
        lambda x: [result[None] for result in jax.vmap(lambda v: every_op(v, "x", world.n))(x[0])]
    )
    world.equals_stock(function, world.put(values))


@case(fast=("2x1", "4x1", "2x4"), slow=("1x4",))
def partitioner_inserts_gathers_scatters_and_exchanges(world: World) -> None:
    n = world.n
    rows = world.random.integers(-4, 5, (8 * n, 4 * n)).astype(np.float32)
    columns = world.random.integers(-4, 5, (4 * n, 6 * n)).astype(np.float32)

    def sharded(*spec: Any) -> NamedSharding:
        return NamedSharding(world.mesh, P(*spec))

    transposed = jax.jit(lambda x: x * 2, out_shardings=sharded(None, "x"))
    world.equals_stock(transposed, world.put(rows, "x", None))
    replicated = jax.jit(lambda x: x + 1, out_shardings=sharded())
    world.equals_stock(replicated, world.put(rows, None, "x"))
    contracted = jax.jit(jnp.matmul, out_shardings=sharded("x", None))
    world.equals_stock(contracted, world.put(rows, None, "x"), world.put(columns, "x", None))
    outer = jax.jit(jnp.matmul, out_shardings=sharded("x", None))
    world.equals_stock(outer, world.put(rows, "x", None), world.put(columns, None, "x"))


@case(fast=("2x1", "4x1"), slow=("2x4",))
def sharded_training_step_equals_stock(world: World) -> None:
    # Weights and data sharded over the same axis: XLA gathers weights and scatters their gradients.
    n = world.n
    rng = np.random.default_rng(3)
    weights = [rng.integers(-2, 3, shape).astype(np.float32) for shape in ((4 * n, 8 * n), (8 * n, 2 * n))]
    data = rng.integers(-2, 3, (4 * n, 4 * n)).astype(np.float32)
    sharding = NamedSharding(world.mesh, P("x", None))

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        hidden = jax.nn.relu(x @ weights[0])
        return jnp.sum(hidden @ weights[1])

    def step(weights: list[jax.Array], x: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return value, [w - g for w, g in zip(weights, gradients, strict=True)]

    function = jax.jit(step, out_shardings=(NamedSharding(world.mesh, P()), [sharding, sharding]))
    operands = [world.put(w, "x", None) for w in weights], world.put(data, "x", None)
    world.equals_stock(function, *operands)


@case(fast=("2x1",), slow=("4x1", "2x4", "1x4"))
def many_independent_ops_in_one_program_do_not_mix(world: World) -> None:
    n = world.n
    values = world.random.integers(0, 1 << 20, (n, 24, n, 16)).astype(np.int32)

    def body(x: jax.Array) -> list[jax.Array]:
        results = []
        for i in range(24):
            part = x[0, i]
            # Chains of different lengths before them, so that they become ready in any order.
            for _ in range(i % 4):
                part = lax.optimization_barrier(part ^ 5)
            results.append(every_op(part, "x", n)[i % 5][None])
        return results

    world.equals_stock(world.shard_map(body), world.put(values), times=5)


@case(fast=(), slow=("2x1", "4x1", "2x4"))
def independent_loops_branches_and_collectives_of_both_backends_do_not_mix(world: World) -> None:
    n, count = world.n, 4
    small = world.random.integers(0, 1000, (n, count, n, 21)).astype(np.int32)
    large = world.random.integers(0, 1000, (n, count, n, (1 << 18) // n)).astype(np.int32)  # of a size left on DEFAULT

    def exchange(v: jax.Array) -> jax.Array:
        return lax.all_to_all(v, "x", 0, 0, tiled=True)

    def either(choose_first: jax.Array, v: jax.Array) -> jax.Array:
        branches = [lambda v: lax.psum(v, "x"), lambda v: lax.ppermute(v, "x", [(i, (i + 1) % n) for i in range(n)])]
        return lax.cond(choose_first, *branches, v)

    def body(v: jax.Array, w: jax.Array, first: jax.Array) -> list[jax.Array]:
        results = []
        for i in range(count):
            part = v[0, i]
            for _ in range(i % 4):
                part = lax.optimization_barrier(part ^ 5)
            results += [
                lax.fori_loop(0, 3, lambda _, x: _mix(x, n), part),
                either(first[i], part),
                lax.fori_loop(0, 2, lambda k, x: either(first[k], x) + k, part),
                exchange(w[0, i]),
                lax.fori_loop(0, 2, lambda k, x: exchange(x) + k, w[0, i]),
            ]
        return [result[None] for result in results]

    first = world.put(np.arange(count) % 2 == 0, None)
    function = world.shard_map(body, in_specs=(P("x"), P("x"), P()), out_specs=P("x"))
    world.equals_stock(function, world.put(small), world.put(large), first, left=None, times=3)


@case(fast=("2x1", "4x1"), slow=("2x4",))
def several_runs_in_flight_do_not_mix(world: World) -> None:
    n = world.n
    inputs = [np.random.default_rng(seed).integers(0, 99, (n, n, 500)).astype(np.int32) for seed in range(5)]
    function = world.shard_map(lambda x: _mix(lax.optimization_barrier(x[0]) + 1, n)[None])
    placed = [world.put(values) for values in inputs]
    expected = [world.equals_stock(function, operand) for operand in placed]
    results = [function(placed[i % 5]) for i in range(40)]
    for i, result in enumerate(results):
        for got, want in zip(result.addressable_shards, expected[i % 5].addressable_shards, strict=True):
            np.testing.assert_array_equal(np.asarray(got.data), np.asarray(want.data))
