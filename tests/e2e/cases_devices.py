"""Meshes in another order than the devices, programs on some of the devices, and gloo beside SHMEM in one program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_permute import permuted, ring
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def _check_order(world: World, order: list[int]) -> None:
    mesh = world.mesh_of(order)
    values = world.random.integers(-99, 99, (len(order), 77)).astype(np.int32)
    function = world.shard_map(
        lambda x: (lax.ppermute(x, "x", ring(len(order))[:-1]), lax.psum(x * (1 + lax.axis_index("x")), "x")), mesh=mesh
    )
    operand = world.put(values, mesh=mesh)
    world.uses_shmem(function, operand)
    shifted, total = function(operand)
    world.equals(shifted, permuted(values, ring(len(order))[:-1]))
    weighted = values * np.arange(1, len(order) + 1, dtype=np.int32)[:, None]
    world.equals(total, np.broadcast_to(weighted.sum(0, dtype=np.int32), values.shape))


@case(fast=("2x1", "4x1", "2x4"), slow=("8x1", "1x4"))
def reversed_mesh_reaches_the_right_neighbours(world: World) -> None:
    _check_order(world, list(range(world.n))[::-1])


@case(fast=("4x1", "2x4", "1x4"), slow=("8x1",))
def shuffled_meshes_reach_the_right_neighbours(world: World) -> None:
    for _ in range(3):
        _check_order(world, [int(i) for i in world.random.permutation(world.n)])


@case(fast=("4x1",), slow=("2x4", "8x1"))
def shuffled_two_dimensional_mesh_sums_each_axis(world: World) -> None:
    order = [int(i) for i in world.random.permutation(world.n)]
    mesh = world.mesh_of(order, 2, world.n // 2, axes=("a", "b"))
    terms = world.random.integers(-99, 99, (2, world.n // 2, 33)).astype(np.int32)
    function = world.shard_map(lambda x: (lax.psum(x, "a"), lax.psum(x, "b")), in_specs=P("a", "b"), mesh=mesh)
    operand = world.put(terms, "a", "b", mesh=mesh)
    world.uses_shmem(function, operand)
    for axis, result in enumerate(function(operand)):
        world.equals(result, np.broadcast_to(terms.sum(axis, keepdims=True, dtype=np.int32), terms.shape))


@case(fast=("4x1",), slow=("8x1", "2x4"))
def programs_on_overlapping_subsets_run_unequally_often(world: World) -> None:
    def total_on(order: list[int], times: int) -> None:
        if not any(world.devices[i].process_index == world.rank for i in order):
            return
        mesh = world.mesh_of(order)
        values = np.arange(len(order) * 40, dtype=np.int32).reshape(len(order), 40)
        function = subset.setdefault(tuple(order), world.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh))
        operand = world.put(values, mesh=mesh)
        for _ in range(times):
            world.equals(function(operand), np.broadcast_to(values.sum(0, dtype=np.int32), values.shape))

    subset: dict[tuple[int, ...], object] = {}
    full = list(range(world.n))
    for times_a, times_b in ((3, 1), (1, 4), (2, 2)):
        total_on([0, 1], times_a)
        total_on([1, 2], times_b)
        total_on([0, 2], 1)
        total_on([world.n - 1, 0], times_b)
    total_on(full, 3)
    total_on([1, 0], 2)
    total_on(full, 1)


@case(fast=("2x1", "4x1", "2x4"), slow=())
def gloo_collectives_stay_beside_ours_in_one_program(world: World) -> None:
    columns = (1 << 20) // 4 // world.n  # a MiB a device: at the limits of `OPS`
    values = world.random.integers(-9, 9, (world.n * world.n, columns)).astype(np.float32)

    def body(x: jax.Array) -> tuple[jax.Array, ...]:
        gathered = lax.all_gather(lax.ppermute(x, "x", ring(world.n)), "x", tiled=True)
        scattered = lax.psum_scatter(gathered, "x", scatter_dimension=0, tiled=True)
        swapped = lax.all_to_all(x, "x", split_axis=0, concat_axis=0, tiled=True)
        return lax.psum(x, "x"), gathered, scattered, swapped

    function = world.shard_map(body, out_specs=(P(), P(), P("x"), P("x")))
    operand = world.put(values)
    if world.n > 1:
        world.uses_shmem(function, operand, calls=3, left=["all-to-all", "reduce-scatter"])
    blocks = values.reshape(world.n, world.n, columns)
    rolled = np.roll(blocks, 1, 0)
    for _ in range(2):
        total, gathered, scattered, swapped = function(operand)
        world.equals(total, blocks.sum(0))
        world.equals(gathered, rolled.reshape(values.shape))
        world.equals(scattered, (rolled * world.n).reshape(values.shape))
        world.equals(swapped, blocks.transpose(1, 0, 2).reshape(values.shape))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def sum_at_the_threshold_stays_on_gloo_beside_ours(world: World) -> None:
    # The jobs of the cases run with XLA_SHMEM_THRESHOLD=2MiB.
    elements = (2 << 20) // 4
    large = world.random.integers(-99, 99, (world.n, elements)).astype(np.int32)
    function = world.shard_map(
        lambda x: (lax.psum(x, "x"), lax.psum(x[:, :-1], "x"), lax.pmax(x[:, :10], "x")), out_specs=P()
    )
    operand = world.put(large)
    total, shorter, largest = function(operand)
    world.equals(total.reshape(-1), large.sum(0, dtype=np.int32))
    world.equals(shorter.reshape(-1), large[:, :-1].sum(0, dtype=np.int32))
    world.equals(largest.reshape(-1), large[:, :10].max(0))
    if world.n > 1:
        at_limit = world.shard_map(lambda x: lax.psum(x, "x"), out_specs=P())
        world.uses_shmem(at_limit, operand, calls=0, left=["all-reduce"])
        world.uses_shmem(at_limit, world.put(large[:, :-1].copy()), calls=1)


@case(fast=(), slow=("2x1", "4x1"))
def permute_of_sixty_four_mebibytes_arrives(world: World) -> None:
    values = np.arange(world.n * (16 << 20), dtype=np.int32).reshape(world.n, -1)
    function = world.shard_map(lambda x: lax.ppermute(x, "x", ring(world.n)))
    operand = world.put(values)
    world.uses_shmem(function, operand, calls=1)
    world.equals(function(operand), np.roll(values, 1, 0))


@case(fast=("2x1",), slow=("4x1",))
def result_of_one_program_feeds_another_on_fewer_devices(world: World) -> None:
    if world.n < 2:
        return
    values = np.arange(world.n * 8, dtype=np.float32).reshape(world.n, 8)
    both = world.shard_map(lambda x: lax.psum(x, "x"), out_specs=P())
    replicated = both(world.put(values))
    resharded = jax.jit(lambda x: jnp.tile(x, (world.n, 1)), out_shardings=NamedSharding(world.mesh, P("x")))
    world.equals(both(resharded(replicated)).reshape(-1), values.sum(0) * world.n)
