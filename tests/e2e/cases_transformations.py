"""JAX's transformations and control flow around collectives, donation, jit's cache, ahead-of-time executables."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_permute import ring
from jax import lax
from jax.sharding import PartitionSpec as P


def integers(world: World, *shape: int) -> np.ndarray:
    """Small integers, whose sums are exact in f32 in any order."""
    return world.random.integers(-50, 50, (world.n, *shape)).astype(np.float32)


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def gradient_of_a_ring_flows_backwards(world: World) -> None:
    values, weights = integers(world, 9), integers(world, 9)

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        shifted = jax.shard_map(
            lambda v: lax.ppermute(v * v, "x", ring(world.n)), mesh=world.mesh, in_specs=P("x"), out_specs=P("x")
        )(x)
        return jnp.sum(shifted * w)

    function = jax.jit(jax.value_and_grad(loss))
    operands = world.put(values), world.put(weights)
    world.uses_shmem(function, *operands)
    value, gradient = function(*operands)
    world.equals(value, np.float32((np.roll(values * values, 1, 0) * weights).sum()))
    world.equals(gradient, 2 * values * np.roll(weights, -1, 0))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def gradient_through_a_sum_reaches_every_shard(world: World) -> None:
    values, weights = integers(world, 6), integers(world, 6)[0]

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return jax.shard_map(
            lambda w, v: lax.psum(jnp.sum(v * w), "x"), mesh=world.mesh, in_specs=(P(), P("x")), out_specs=P()
        )(w, x)

    function = jax.jit(jax.grad(loss))
    operands = world.put(weights, None), world.put(values)
    world.uses_shmem(function, *operands)
    gradient = function(*operands)
    world.equals(gradient, values.sum(0))
    world.same_on_all_ranks(gradient)


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def sum_carried_by_scan_stays_right_for_hundreds_of_steps(world: World) -> None:
    values = world.random.integers(0, 1 << 20, (world.n, 300)).astype(np.uint32)

    def body(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(carry: jax.Array, i: jax.Array) -> tuple[jax.Array, jax.Array]:
            carry = lax.psum(carry, "x") + i
            return carry, carry[0, :2]

        return lax.scan(step, x, jnp.arange(400, dtype=jnp.uint32))

    function = world.shard_map(body, out_specs=(P(), P()))
    operand = world.put(values)
    world.uses_shmem(function, operand, calls=1)
    carry, seen = function(operand)
    expected, first = values.sum(0, dtype=np.uint32), []
    for i in range(400):
        expected = (expected if i == 0 else expected * np.uint32(world.n)) + np.uint32(i)
        first.append(expected[:2])
    world.equals(carry.reshape(-1), expected)
    world.equals(seen, np.stack(first))
    world.same_on_all_ranks(carry)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def ring_in_fori_loop_comes_back_after_n_steps(world: World) -> None:
    values = integers(world, 5000)
    function = world.shard_map(
        lambda x: lax.fori_loop(0, 10 * world.n + 1, lambda _, v: lax.ppermute(v, "x", ring(world.n)), x)
    )
    operand = world.put(values)
    world.uses_shmem(function, operand, calls=1)
    world.equals(function(operand), np.roll(values, 1, 0))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def while_loop_runs_as_often_as_the_data_says(world: World) -> None:
    values = np.arange(1, world.n + 1, dtype=np.int32)

    def body(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            count, v = state
            return count + 1, lax.psum(v, "x")

        return lax.while_loop(lambda state: lax.pmax(state[1], "x")[0] < 10_000, step, (jnp.int32(0), x))

    function = world.shard_map(body, out_specs=(P(), P()))
    operand = world.put(values)
    world.uses_shmem(function, operand)
    if world.n == 1:
        return  # the sum over one device never grows
    count, result = function(operand)
    steps, value = 1, int(values.sum())
    while value < 10_000:
        steps, value = steps + 1, value * world.n
    world.equals(count, np.int32(steps))
    world.equals(result, np.array([value], np.int32))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def branch_not_taken_leaves_no_gap(world: World) -> None:
    values = integers(world, 64)
    function = world.shard_map(
        lambda x, flag: lax.cond(flag, lambda v: lax.psum(v, "x"), lambda v: lax.ppermute(v, "x", ring(world.n)), x),
        in_specs=(P("x"), P()),
        out_specs=P("x"),
    )
    operand = world.put(values)
    flags = [jax.device_put(np.bool_(taken)) for taken in (False, True)]
    world.uses_shmem(function, operand, flags[0])
    for taken in (0, 1, 1, 0, 0, 0, 1, 0, 1, 1):
        expected = np.broadcast_to(values.sum(0), values.shape) if taken else np.roll(values, 1, 0)
        world.equals(function(operand, flags[taken]), expected)


@case(fast=("4x1",), slow=("2x4", "8x1"))
def groups_that_take_different_branches_do_not_wait_for_each_other(world: World) -> None:
    half = world.n // 2
    groups = [list(range(half)), list(range(half, world.n))]
    values = world.random.integers(0, 100, (world.n, 16)).astype(np.int32)

    def body(x: jax.Array, mask: jax.Array) -> jax.Array:
        upper = lax.axis_index("x") >= half

        def step(i: jax.Array, v: jax.Array) -> jax.Array:
            taken = (mask[i] & (1 + upper)) != 0
            return lax.cond(taken, lambda v: lax.psum(v, "x", axis_index_groups=groups), lambda v: v + 1, v)

        return lax.fori_loop(0, mask.shape[0], step, x)

    function = world.shard_map(body, in_specs=(P("x"), P()), out_specs=P("x"))
    operand = world.put(values)
    for seed in range(6):
        mask = np.random.default_rng(seed).integers(0, 4, 9).astype(np.int32)
        expected = values.copy()
        for bits in mask:
            for bit, group in zip((1, 2), groups, strict=True):
                expected[group] = expected[group].sum(0, dtype=np.int32) if bits & bit else expected[group] + 1
        world.equals(function(operand, jax.device_put(mask)), expected)


@case(fast=("2x1",), slow=("4x1",))
def switch_picks_one_of_three_collectives(world: World) -> None:
    values = integers(world, 40)
    branches = [
        lambda v: lax.psum(v, "x"),
        lambda v: lax.pmax(v, "x"),
        lambda v: lax.ppermute(v, "x", ring(world.n)),
    ]
    function = world.shard_map(lambda x, i: lax.switch(i, branches, x), in_specs=(P("x"), P()), out_specs=P("x"))
    operand = world.put(values)
    world.uses_shmem(function, operand, jax.device_put(np.int32(0)), calls=3)
    for choice in (2, 0, 1, 1, 0, 2):
        expected = [values.sum(0), values.max(0), np.roll(values, 1, 0)][choice]
        world.equals(function(operand, jax.device_put(np.int32(choice))), np.broadcast_to(expected, values.shape))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def vmap_adds_a_dimension_to_both_collectives(world: World) -> None:
    values = integers(world, 6, 8)
    function = world.shard_map(
        lambda x: (
            jax.vmap(lambda v: lax.ppermute(v, "x", ring(world.n)), in_axes=2, out_axes=2)(x),
            jax.vmap(lambda v: lax.psum(v, "x"), in_axes=1, out_axes=1)(x),
        )
    )
    operand = world.put(values)
    world.uses_shmem(function, operand)
    shifted, total = function(operand)
    world.equals(shifted, np.roll(values, 1, 0))
    world.equals(total, np.broadcast_to(values.sum(0), values.shape))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def donated_operand_may_hold_the_result(world: World) -> None:
    for size in (8, 200_000):
        values = integers(world, size)
        body = jax.shard_map(
            lambda x: (lax.psum(x, "x"), lax.ppermute(x, "x", ring(world.n))),
            mesh=world.mesh,
            in_specs=P("x"),
            out_specs=P("x"),
            check_vma=False,
        )
        function = jax.jit(lambda x, y, body=body: (body(x)[0], body(y)[1]), donate_argnums=(0, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            operands = world.put(values), world.put(values)
            world.uses_shmem(function, *operands)
            total, shifted = function(*operands)
        # jaxlib 0.10 drops the module's aliasing if any transform returns a module.
        if world.n > 1 and jax.__version_info__ >= (0, 11):
            assert operands[0].is_deleted(), "was not donated"
        world.equals(total, np.broadcast_to(values.sum(0), values.shape))
        world.equals(shifted, np.roll(values, 1, 0))


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def fifty_calls_of_one_jitted_function_compile_once(world: World) -> None:
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    for i in range(50):
        values = np.full((world.n, 30), i, np.int32) + np.arange(world.n, dtype=np.int32)[:, None]
        world.equals(function(world.put(values)), np.broadcast_to(values.sum(0, dtype=np.int32), values.shape))
    assert function._cache_size() == 1


@case(fast=("2x1",), slow=("4x1", "2x4"))
def executable_compiled_ahead_of_time_runs(world: World) -> None:
    values = integers(world, 100)
    operand = world.put(values)
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    compiled = function.lower(operand).compile()
    for _ in range(3):
        world.equals(compiled(operand), np.broadcast_to(values.sum(0), values.shape))


@case(fast=("2x1", "4x1"), slow=("2x4",))
def ranks_that_compiled_at_different_times_still_meet(world: World) -> None:
    # XLA's launch ids of one program differ between ranks after this (execution_counter.h).
    values = integers(world, 50)
    operand = world.put(values)
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    expected = np.broadcast_to(values.sum(0), values.shape)
    for call in range(12):
        if call % (world.rank + 2) == 1:
            jax.clear_caches()
        world.equals(function(operand), expected)
    compiled = world.shard_map(lambda x: lax.psum(x, "x")).lower(operand).compile()
    for call in range(6):
        world.equals((compiled if (call + world.rank) % 3 else function)(operand), expected)


@case(fast=("2x1",), slow=("4x1",))
def same_program_compiled_twice_is_two_programs(world: World) -> None:
    operands = [integers(world, 20_000) for _ in range(2)]
    placed = [world.put(values) for values in operands]
    functions = [world.shard_map(lambda x: lax.psum(x, "x")) for _ in range(2)]
    for _ in range(20):
        results = [function(x) for function, x in zip(functions, placed, strict=True)]
        for result, values in zip(results, operands, strict=True):
            world.equals(result, np.broadcast_to(values.sum(0), values.shape))
