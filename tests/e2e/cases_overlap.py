"""Programs in flight together, threads, ranks at different speeds, dispatch in random order."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_permute import ring
from jax import lax


def _busy_psum(world: World) -> Any:
    """A sum after some arithmetic, so that the call returns before the sum is done."""

    def body(x: jax.Array) -> jax.Array:
        y = lax.fori_loop(0, 20, lambda _, v: jnp.sin(v) * 0 + v, x)
        return lax.psum(y, "x")

    return world.shard_map(body)


def _values(world: World, seed: int, size: int = 3000) -> np.ndarray:
    return np.random.default_rng(seed).integers(-99, 99, (world.n, size)).astype(np.float32)


def _total(values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values.sum(0), values.shape)


@case(fast=("2x1", "4x1"), slow=("2x4", "1x4"))
def two_programs_in_flight_do_not_mix(world: World) -> None:
    f, g = _busy_psum(world), world.shard_map(lambda x: lax.ppermute(x, "x", ring(world.n)))
    inputs = [_values(world, seed) for seed in range(4)]
    placed = [world.put(values) for values in inputs]
    results = [(f(placed[i % 4]), g(placed[(i + 1) % 4])) for i in range(40)]
    for i, (total, shifted) in enumerate(results):
        world.equals(total, _total(inputs[i % 4]))
        world.equals(shifted, np.roll(inputs[(i + 1) % 4], 1, 0))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def one_program_in_flight_many_times_does_not_mix(world: World) -> None:
    f = _busy_psum(world)
    inputs = [_values(world, seed) for seed in range(7)]
    placed = [world.put(values) for values in inputs]
    results = [f(placed[i % 7]) for i in range(70)]
    for i, total in enumerate(results):
        world.equals(total, _total(inputs[i % 7]))


def _in_turns(workers: list[Any], turns: int) -> None:
    """Runs each worker in a thread; they dispatch in turn (in the same order on all ranks) and wait independently."""
    turn, changed, errors = [0], threading.Condition(), []

    def run(number: int) -> None:
        try:
            for k in range(turns):
                with changed:
                    assert changed.wait_for(lambda k=k: turn[0] == k * len(workers) + number or errors, 30)
                    if errors:
                        return
                    pending = workers[number](k)
                    turn[0] += 1
                    changed.notify_all()
                pending()
        except BaseException as error:
            errors.append(error)
            with changed:
                changed.notify_all()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@case(fast=("2x1",), slow=("4x1",))
def two_threads_run_two_programs(world: World) -> None:
    programs = [_busy_psum(world), world.shard_map(lambda x: lax.ppermute(x, "x", ring(world.n)))]
    inputs = [_values(world, seed) for seed in range(5)]
    placed = [world.put(values) for values in inputs]
    expected = [_total, lambda values: np.roll(values, 1, 0)]

    def worker(number: int) -> Any:
        def dispatch(k: int) -> Any:
            result = programs[number](placed[(k + number) % 5])
            return lambda: world.equals(result, expected[number](inputs[(k + number) % 5]))

        return dispatch

    _in_turns([worker(0), worker(1)], 40)


@case(fast=("2x1",), slow=("4x1",))
def two_threads_run_one_program_one_after_the_other(world: World) -> None:
    def body(x: jax.Array) -> jax.Array:
        for _ in range(10):
            x = lax.psum(x, "x") - (world.n - 1) * x + jnp.sin(x) * 0
        return x

    function = world.shard_map(body)
    placed = [world.put(np.full((world.n, 4000), k, np.float32)) for k in range(8)]
    world.equals(function(placed[1]), np.full((world.n, 4000), 1, np.float32))

    def worker(number: int) -> Any:
        def dispatch(k: int) -> Any:
            value = (3 * k + number) % 8
            result = function(placed[value]).block_until_ready()  # else the second run is refused
            return lambda: world.equals(result, np.full((world.n, 4000), value, np.float32))

        return dispatch

    # Emulated GPUs run 12 turns in the time of 500 on CPUs.
    _in_turns([worker(0), worker(1)], 60 if world.devices[0].platform == "cpu" else 12)


@case(fast=(), slow=())
def threads_run_programs_that_differ_in_a_constant(world: World) -> None:
    """Each thread starts its runs whenever it likes, so the order differs from rank to rank."""
    errors: list[BaseException] = []

    def program(constant: int) -> Any:
        def shift(x: jax.Array) -> jax.Array:
            return lax.ppermute(x * constant, "x", ring(world.n))

        return world.shard_map(shift)

    values = _values(world, 1)
    placed = world.put(values)
    programs = [(constant, program(constant)) for constant in (2, 3, 5, 7)]
    for _, function in programs:
        function(placed).block_until_ready()

    def run(constant: int, function: Any) -> None:
        own = random.Random(10 * world.rank + constant)
        try:
            for _ in range(50):
                time.sleep(own.random() * 0.002)
                shifted = np.roll(values * constant, 1, 0)
                for shard in function(placed).addressable_shards:  # not World.equals: threads have no common order
                    np.testing.assert_array_equal(np.asarray(shard.data), shifted[shard.index])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=arguments) for arguments in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@case(fast=("2x1", "4x1"), slow=("2x4",))
def ranks_at_different_speeds_still_meet(world: World) -> None:
    own = random.Random(world.rank)  # another sequence on every rank
    f, g = _busy_psum(world), world.shard_map(lambda x: lax.ppermute(x, "x", ring(world.n)))
    inputs = [_values(world, seed, 500) for seed in range(3)]
    placed = [world.put(values) for values in inputs]
    results = []
    for i in range(60):
        if own.random() < 0.4:
            time.sleep(own.random() * 0.006)
        results.append((f if i % 2 else g)(placed[i % 3]))
        if own.random() < 0.2:
            results[-1].block_until_ready()
    for i, result in enumerate(results):
        world.equals(result, _total(inputs[i % 3]) if i % 2 else np.roll(inputs[i % 3], 1, 0))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def hundreds_of_executions_in_random_order(world: World) -> None:
    programs = [
        _busy_psum(world),
        world.shard_map(lambda x: lax.ppermute(x, "x", ring(world.n))),
        world.shard_map(lambda x: lax.pmax(lax.psum(x, "x") + lax.ppermute(x, "x", ring(world.n)), "x")),
    ]
    inputs = [_values(world, seed, size) for seed in range(3) for size in (10, 20_000)]
    placed = [world.put(values) for values in inputs]
    expected = [
        _total,
        lambda v: np.roll(v, 1, 0),
        lambda v: np.broadcast_to((v.sum(0) + np.roll(v, 1, 0)).max(0), v.shape),
    ]
    order = random.Random(5)  # equal on every rank, because all ranks must dispatch in the same order
    pending: list[tuple[int, int, jax.Array]] = []
    for _ in range(400):
        program, operand = order.randrange(3), order.randrange(len(inputs))
        pending.append((program, operand, programs[program](placed[operand])))
        if len(pending) > 20:
            done, at, result = pending.pop(order.randrange(len(pending)))
            world.equals(result, expected[done](inputs[at]))
    for done, at, result in pending:
        world.equals(result, expected[done](inputs[at]))


@case(fast=(), slow=("2x1", "4x1", "2x4"))
def thousands_of_iterations_with_random_delays(world: World) -> None:
    own = random.Random(100 + world.rank)

    def body(x: jax.Array) -> jax.Array:
        def step(_: int, v: jax.Array) -> jax.Array:
            chains = [lax.ppermute(v[:, i : i + 8], "x", ring(world.n, 1 if i % 16 else -1)) for i in range(0, 64, 8)]
            return jnp.concatenate(chains, 1) + 0 * lax.psum(v, "x")

        return lax.fori_loop(0, 50, step, x)

    function = world.shard_map(body)
    values = np.arange(world.n * 64, dtype=np.int32).reshape(world.n, 64)
    operand = world.put(values)
    forward, backward = np.roll(values, 50, 0), np.roll(values, -50, 0)
    expected = np.concatenate([(forward if i % 16 else backward)[:, i : i + 8] for i in range(0, 64, 8)], 1)
    for _ in range(60):
        time.sleep(own.random() * 0.01)
        world.equals(function(operand), expected)
