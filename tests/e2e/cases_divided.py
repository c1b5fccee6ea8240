"""Collectives that cross NVLink domains, divided into parts within domains and a part between them.

Only jobs of test_divided_collectives.py run these cases: with XLA_SHMEM_HIERARCHICAL=on, in domains of two devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import stablehlo_ops
from case_world import World, case
from cases_groups import check_mesh
from cases_permute import Pairs, permuted, random_bits, ring
from jax import lax

_divided: Callable[..., Any] = partial(case, fast=(), slow=())


@_divided()
def divided_all_reduces_of_any_size_and_type_are_right(world: World) -> None:
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    for size in (1, 3, 31, 1000, 70001):
        for dtype in ("int32", "int8", "uint64", "float64", "float32"):
            values = world.random.integers(0, 9, (world.n, size)).astype(dtype)
            world.equals_stock(function, world.put(values), calls=2, left=["all-reduce"], times=2)


@_divided()
def divided_all_reduces_of_fractions_differ_only_in_the_order_of_additions(world: World) -> None:
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    for dtype, within in (("float32", 1e-5), ("float64", 1e-12), ("float16", 1e-2), ("complex64", 1e-5)):
        values = world.random.uniform(0.5, 1.5, (world.n, 5000)).astype(dtype)
        result = world.equals_stock(function, world.put(values), calls=2, left=["all-reduce"], within=within)
        world.same_on_all_ranks(result.addressable_shards[0].data)


@_divided()
def divided_maxima_minima_and_predicates_are_right(world: World) -> None:
    reductions: list[Any] = [lax.pmax, lax.pmin]
    for reduce in reductions:
        function = world.shard_map(lambda x, reduce=reduce: reduce(x, "x"))
        values = world.random.normal(size=(world.n, 77)).astype(np.float32)
        world.equals_stock(function, world.put(values), calls=2, left=["all-reduce"])
    values = world.random.integers(0, 2, (world.n, 50)).astype(bool)
    for either in (True, False):
        function = world.shard_map(lambda x, either=either: (lax.pmax if either else lax.pmin)(x, "x"))
        want = values.any(0) if either else values.all(0)
        world.equals(function(world.put(values)), np.broadcast_to(want, values.shape))


@_divided()
def several_arrays_in_one_all_reduce_are_right(world: World) -> None:
    shapes = [(3,), (2, 5), (1,), (700,)]
    values = [world.random.integers(-99, 99, (world.n, *shape)).astype(np.int32) for shape in shapes]
    function = world.shard_map(lambda *x: lax.psum(x, "x"), in_specs=(jax.sharding.PartitionSpec("x"),) * 4)
    world.equals_stock(function, *map(world.put, values), left=None)


@_divided()
def every_divided_op_over_all_devices_in_any_order(world: World) -> None:
    orders = [list(range(world.n)), list(range(world.n))[::-1]]
    orders += [[int(i) for i in world.random.permutation(world.n)] for _ in range(2)]
    for order in orders:
        check_mesh(world, world.mesh_of(order), ["x"], left=None)


@_divided()
def every_op_over_each_axis_of_a_mesh_that_crosses_domains_or_not(world: World) -> None:
    for order in (list(range(world.n)), [int(i) for i in world.random.permutation(world.n)]):
        mesh = world.mesh_of(order, 2, world.n // 2, axes=("a", "b"))
        check_mesh(world, mesh, ["a", "b", ("a", "b"), ("b", "a")], left=None)


@_divided()
def divided_gathers_scatters_and_exchanges_leave_one_op_each_to_the_default_backend(world: World) -> None:
    n = world.n
    bodies: list[tuple[Any, int, list[str]]] = [
        (lambda x: lax.all_gather(x, "x", tiled=True), 1, ["all-gather"]),
        (lambda x: lax.psum_scatter(x, "x", tiled=True), 2, ["all-to-all"]),
        (lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True), 2, ["all-to-all"]),
    ]
    for body, calls, left in bodies:
        for rows, columns in ((1, 1), (2, 3), (1, 4099), (3, 20000)):
            values = world.random.integers(-99, 99, (n * n * rows, columns)).astype(np.int32)
            world.equals_stock(world.shard_map(body), world.put(values), calls=calls, left=left, times=2)


@_divided()
def divided_permutes_deliver_every_pair_and_zeros(world: World) -> None:
    n = world.n
    lists: list[Pairs] = [
        ring(n),
        ring(n, 2),
        [(0, 0), (1, 2)],
        [(0, 1), (1, 2)],
        [(n - 1, 0), (0, 1)],
    ]
    lists += [[(i, int(j)) for i, j in enumerate(world.random.permutation(n))] for _ in range(3)]
    for pairs in lists:
        for size in (1, 33, 70001):
            values = random_bits(world, (n, size), "int32")
            permute = world.shard_map(lambda x, pairs=pairs: lax.ppermute(x, "x", pairs))
            for _ in range(2):
                world.equals(permute(world.put(values)), permuted(values, pairs))


@_divided()
def divided_broadcasts_reach_everybody_from_any_root(world: World) -> None:
    n = world.n
    order = [int(i) for i in world.random.permutation(n)]
    for groups in (
        *([[root, *(i for i in range(n) if i != root)]] for root in range(n)),
        [order[: n - 1]],
        [order[: n // 2], order[n // 2 :]],
    ):
        for size in (1, 5000):
            values = world.random.integers(0, 9, (n, size)).astype(np.int32)
            expected = np.zeros_like(values)
            for group in groups:
                expected[group] = values[group[0]]
            function = world.shard_map(lambda x, groups=groups: stablehlo_ops.broadcast(x, groups))
            world.equals(function(world.put(values)), expected)


@_divided()
def divided_collectives_in_loops_and_branches_are_right(world: World) -> None:
    def body(x: jax.Array) -> jax.Array:
        def step(y: jax.Array, _: None) -> tuple[jax.Array, None]:
            y = lax.psum(y, "x") % 97
            y = lax.ppermute(y, "x", ring(world.n))
            y = lax.cond(y[0, 0] % 2 == 0, lambda z: lax.psum(z, "x") % 89, lambda z: z + 1, lax.pmax(y, "x"))
            return y + lax.axis_index("x"), None

        return lax.scan(step, x, None, length=7)[0]

    values = world.random.integers(0, 9, (world.n, 40)).astype(np.int32)
    world.equals_stock(world.shard_map(body), world.put(values), left=None, times=3)


@_divided()
def donated_operands_and_gradients_are_right(world: World) -> None:
    values = world.random.integers(0, 5, (world.n, 256)).astype(np.float32)

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(lax.psum(x * x, "x") * lax.all_gather(x, "x", tiled=True).sum())

    world.equals_stock(world.shard_map(jax.grad(loss)), world.put(values), left=None, within=1e-5)
    update = jax.jit(
        jax.shard_map(
            lambda x: x + lax.psum(x, "x"),
            mesh=world.mesh,
            in_specs=jax.sharding.PartitionSpec("x"),
            out_specs=jax.sharding.PartitionSpec("x"),
        ),
        donate_argnums=0,
    )
    expected, donated = values, world.put(values)
    for _ in range(3):
        expected, donated = expected + expected.sum(0), update(donated)
    world.equals(donated, expected)


@_divided()
def many_divided_collectives_in_flight_are_right(world: World) -> None:
    def body(x: jax.Array) -> list[jax.Array]:
        return [lax.psum(x * i, "x") + lax.ppermute(x, "x", ring(world.n)) for i in range(6)]

    values = world.random.integers(-9, 9, (world.n, 3000)).astype(np.int32)
    function = world.shard_map(body)
    operand = world.put(values)
    for results in [function(operand) for _ in range(10)]:
        for i, result in enumerate(results):
            want = np.broadcast_to((values * i).sum(0), values.shape) + permuted(values, ring(world.n))
            world.equals(result, want)


@_divided()
def divided_reductions_that_xla_lacks_are_right(world: World) -> None:
    groups = [list(range(world.n))]
    values = world.random.integers(0, 1 << 30, (world.n, 12 * world.n)).astype(np.uint32)
    expected = np.bitwise_xor.reduce(values, axis=0)
    all_reduce = world.shard_map(lambda x: stablehlo_ops.all_reduce(x, groups, "Xor"))
    world.equals(all_reduce(world.put(values)), np.broadcast_to(expected, values.shape))
    scatter = world.shard_map(lambda x: stablehlo_ops.reduce_scatter(x[0], groups, "Xor"))
    world.equals(scatter(world.put(values)), expected)
