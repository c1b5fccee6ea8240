"""Every op in one program, over every kind of group: whole meshes, axes, index groups, subsets, in any device order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from case_world import World, case
from cases_permute import ring
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

Axis = str | tuple[str, ...]


def every_op(x: jax.Array, axis: Axis, members: int, groups: Sequence[Sequence[int]] | None = None) -> list[jax.Array]:
    """all-gather, reduce-scatter, all-to-all, all-reduce and (on a whole axis) a permute of a block of (members, k)."""
    results = [
        lax.all_gather(x, axis, axis_index_groups=groups),
        lax.psum_scatter(x, axis, axis_index_groups=groups, tiled=True),
        lax.all_to_all(x, axis, 0, 0, axis_index_groups=groups, tiled=True),
        lax.psum(x, axis, axis_index_groups=groups),
    ]
    # JAX 0.12 refuses permutes over axes in another order than that of the mesh.
    return results if groups or not isinstance(axis, str) else [*results, lax.ppermute(x, axis, ring(members))]


def check_mesh(world: World, mesh: Mesh, axes: Sequence[Axis], times: int = 2, left: Sequence[str] | None = ()) -> None:
    """Every op over each of these axes of a mesh, all in one program. `left`: as for `World.equals_stock`."""
    sizes = [int(np.prod([mesh.shape[name] for name in ([axis] if isinstance(axis, str) else axis)])) for axis in axes]
    rows = int(np.lcm.reduce(sizes))
    values = world.random.integers(-99, 99, (*mesh.devices.shape, rows, 5)).astype(np.int32)
    spec = P(*mesh.axis_names)
    dims = mesh.devices.ndim

    def body(x: jax.Array) -> list[jax.Array]:
        block = x.reshape(rows, 5)
        results = [result for axis, size in zip(axes, sizes, strict=True) for result in every_op(block, axis, size)]
        return [result.reshape((1,) * dims + result.shape) for result in results]

    function = world.shard_map(body, in_specs=spec, mesh=mesh)
    world.equals_stock(function, world.put(values, *mesh.axis_names, mesh=mesh), times=times, left=left)


@case(fast=("2x1", "4x1", "2x4", "1x4"), slow=("8x1",))
def every_op_over_all_devices_in_any_order(world: World) -> None:
    for order in (
        list(range(world.n)),
        list(range(world.n))[::-1],
        [int(i) for i in world.random.permutation(world.n)],
    ):
        check_mesh(world, world.mesh_of(order), ["x"])


@case(fast=("4x1", "2x4"), slow=("8x1", "1x4"))
def every_op_over_each_axis_of_a_mesh(world: World) -> None:
    order = [int(i) for i in world.random.permutation(world.n)]
    mesh = world.mesh_of(order, 2, world.n // 2, axes=("a", "b"))
    check_mesh(world, mesh, ["a", "b", ("a", "b"), ("b", "a")])


@case(fast=("2x4",), slow=("8x1",))
def every_op_over_each_pair_of_three_axes(world: World) -> None:
    order = [int(i) for i in world.random.permutation(8)]
    mesh = world.mesh_of(order, 2, 2, 2, axes=("a", "b", "c"))
    check_mesh(world, mesh, ["b", ("a", "c"), ("c", "b"), ("a", "b", "c")])


@case(fast=("4x1", "2x4"), slow=("8x1", "1x4"))
def every_op_over_groups_chosen_by_index(world: World) -> None:
    order = [int(i) for i in world.random.permutation(world.n)]
    half = world.n // 2
    for groups in (
        [order[:half], order[half:]],
        [order[i::half] for i in range(half)],
        [[i] for i in order],
        [order],
    ):
        members = len(groups[0])
        values = world.random.integers(-99, 99, (world.n, members, 3)).astype(np.int32)

        def body(x: jax.Array, groups: Any = groups, members: int = members) -> list[jax.Array]:
            return [result[None] for result in every_op(x[0], "x", members, groups)]

        world.equals_stock(world.shard_map(body), world.put(values), times=2)


@case(fast=("4x1",), slow=("8x1", "2x4"))
def every_op_on_overlapping_subsets_of_the_devices(world: World) -> None:
    for order in ([0, 1], [2, 1], [0, 2, world.n - 1], [world.n - 1, 0], list(range(world.n))):
        if any(world.devices[i].process_index == world.rank for i in order):
            check_mesh(world, world.mesh_of(order), ["x"])


@case(fast=("4x1", "2x4"), slow=("8x1",))
def programs_with_other_groups_take_turns(world: World) -> None:
    # Modules of different groups, all in flight; XLA gives their ops the same channel.
    half = world.n // 2
    kinds: list[Any] = [None, [list(range(half)), list(range(half, world.n))], [[i, i + half] for i in range(half)]]
    programs, expected = [], []
    for groups in kinds:
        members = len(groups[0]) if groups else world.n
        values = world.random.integers(-99, 99, (world.n, members, 40)).astype(np.int32)

        def body(x: jax.Array, groups: Any = groups, members: int = members) -> list[jax.Array]:
            return [result[None] for result in every_op(x[0], "x", members, groups)]

        function, operand = world.shard_map(body), world.put(values)
        expected.append(
            [np.asarray(s.data) for r in world.equals_stock(function, operand) for s in r.addressable_shards]
        )
        programs.append((function, operand))
    runs = [programs[i % 3][0](programs[i % 3][1]) for i in range(18)]
    for i, results in enumerate(runs):
        got = [np.asarray(shard.data) for result in results for shard in result.addressable_shards]
        for a, b in zip(got, expected[i % 3], strict=True):
            np.testing.assert_array_equal(a, b)
