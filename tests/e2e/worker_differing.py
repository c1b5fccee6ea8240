"""Programs that differ between ranks. The ranks report values, or their error and the time until it came.

Argument: the way in which they differ (a function below).
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World
from jax import lax
from job_runs import report

_Step = Callable[[jax.Array], object]


def _rows(world: World, size: int = 10) -> jax.Array:
    """Row i is i + 1 everywhere."""
    return world.put(np.repeat(np.arange(1, world.n + 1, dtype=np.float32), size).reshape(world.n, size))


def _report_first_rows(run: Callable[[], object]) -> None:
    begin = time.monotonic()
    try:
        arrays = jax.tree.leaves(jax.block_until_ready(run()))
        report({"values": [np.asarray(array.addressable_shards[0].data).ravel()[:2].tolist() for array in arrays]})
    except Exception as error:
        report({"error": str(error), "seconds": time.monotonic() - begin})


def _report_digests(arrays: list[jax.Array]) -> None:
    try:
        shards = [np.asarray(array.addressable_shards[0].data) for array in arrays]
        report({"digests": [hashlib.sha256(shard.tobytes()).hexdigest() for shard in shards]})
    except Exception as error:
        report({"error": str(error)})


def _run(world: World, step: _Step, size: int = 10) -> None:
    _report_first_rows(lambda: world.shard_map(step)(_rows(world, size)))


# Stock JAX gives the right value.


def constant_in_a_sum(world: World) -> None:
    def step(x: jax.Array) -> jax.Array:
        return lax.psum(x * (world.rank + 1), "x")  # on rank 0 XLA removes the product

    _run(world, step)


def constants_in_all_ops(world: World) -> None:
    """Every op, a loop, small and large arrays, and several steps whose runs are in flight at once."""
    ring = [(i, (i + 1) % world.n) for i in range(world.n)]
    scale = float(world.rank + 1)

    def turn(_: jax.Array, x: jax.Array) -> jax.Array:
        return lax.ppermute(x * scale, "x", ring) / world.n

    def step(x: jax.Array) -> tuple[jax.Array, ...]:
        # Each needs the one before, so XLA schedules them in one order whatever it simplifies.
        x = lax.fori_loop(0, 3, turn, x)
        y = lax.psum(x * scale, "x")
        top = lax.pmax(y - scale, "x")
        rows = lax.all_gather(top * scale, "x", tiled=True)
        row = lax.psum_scatter(rows + scale, "x", scatter_dimension=0, tiled=True)
        parts = lax.all_to_all(row.reshape(world.n, -1) * scale, "x", 0, 0, tiled=True)
        return y, top, rows, row, parts, lax.ppermute(parts + scale, "x", ring)

    function = world.shard_map(step)
    _report_digests(
        [part for size in (8, 400_000) for _ in range(4) for part in function(_rows(world, size * world.n))]
    )


def all_to_all_behind_another_collective(world: World) -> None:
    """A rank that takes the whole array puts the call where its parts are joined."""
    scale = float(world.rank + 1)

    def step(x: jax.Array) -> tuple[jax.Array, ...]:
        parts = x.reshape(world.n, -1)
        y = lax.psum(x * scale, "x")
        return (
            y,
            lax.pmax(x - scale, "x"),
            lax.all_gather(x * scale, "x", tiled=True),
            lax.psum_scatter(parts + scale, "x", scatter_dimension=0, tiled=True),
            lax.all_to_all(parts * scale, "x", 0, 0, tiled=True),
            lax.ppermute(y + scale, "x", [(i, (i + 1) % world.n) for i in range(world.n)]),
        )

    _run(world, step)


def one_way(world: World) -> None:
    """The first rank gives and never waits: its program has ended, and it waits in a later one."""
    give = world.shard_map(lambda x: lax.ppermute(x * (world.rank + 1), "x", [(0, 1)]))
    everybody = world.shard_map(lambda x: lax.psum(x, "x"))
    rows = _rows(world)
    _report_first_rows(lambda: [*[give(rows) for _ in range(5)], everybody(rows), give(rows)])


def _scaled_sums(world: World, constants: tuple[int, ...]) -> None:
    """Functions of one name and one source line, called and awaited one after the other."""
    sums = [world.shard_map(lambda x, c=c: lax.psum(x * c * (world.rank + 1), "x")) for c in constants]
    rows = _rows(world)
    _report_first_rows(lambda: [jax.block_until_ready(sums[i % len(sums)](rows)) for i in range(6)])


def functions_of_one_line(world: World) -> None:
    _scaled_sums(world, (1, 3, 7))


def made_again_with_another_constant(world: World) -> None:
    rows = _rows(world)
    results = []
    for factor in (1, 3):
        function = world.shard_map(lambda x, factor=factor: lax.psum(x * factor * (world.rank + 1), "x"))
        results += [function(rows), function(rows)]
        jax.block_until_ready(results)
        jax.clear_caches()
    _report_first_rows(lambda: results)


def bodies_of_one_name(world: World) -> None:
    """Two functions of one name with equal collectives, in flight at once, and one rank drops its copy of them."""
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]

    def make(sign: int) -> Callable[[jax.Array], jax.Array]:
        def step(x: jax.Array) -> jax.Array:
            y = lax.ppermute(x, "x", pairs) if sign > 0 else lax.ppermute(-jnp.sin(x) * 0 - x, "x", pairs)
            return lax.psum(y, "x") + lax.psum(y * y + sign, "x")

        return world.shard_map(step)

    rows = _rows(world)
    plus, minus = make(1), make(-1)
    results = []
    for i in range(40):
        results += [plus(rows), minus(rows), plus(rows)]
        if i == 20 and world.rank == 0:
            jax.block_until_ready(results)
            jax.clear_caches()
    _report_first_rows(lambda: results)


# Stock JAX hangs, fails or gives a wrong value.


def shapes(world: World) -> None:
    _run(world, lambda x: lax.psum(x, "x"), size=8 + world.rank)


def permutes_in_branches_of_python(world: World) -> None:
    shift = 1 if world.rank == 0 else -1

    def step(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, "x", [(i, (i + shift) % world.n) for i in range(world.n)]) + lax.psum(x, "x")

    _run(world, step)


def permutes_in_branches_of_a_constant(world: World) -> None:
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]

    def there(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, "x", pairs)

    def back(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, "x", [(j, i) for i, j in pairs])

    _run(world, lambda x: lax.psum(lax.cond(world.rank == 0, there, back, x), "x"))


def permutes_in_branches_of_the_axis(world: World) -> None:
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]

    def there(x: jax.Array) -> jax.Array:
        return lax.ppermute(x, "x", pairs)

    def back(x: jax.Array) -> jax.Array:
        return lax.ppermute(x * 2, "x", [(j, i) for i, j in pairs])

    def body(i: jax.Array, x: jax.Array) -> jax.Array:
        return lax.cond((lax.axis_index("x") == 0) & (i == 2), there, back, x)

    _run(world, lambda x: lax.fori_loop(0, 4, body, x))


def functions_of_one_line_that_share_a_program(world: World) -> None:
    """The second program of rank 0 is the first of rank 1."""
    _scaled_sums(world, (1, 2, 4))


def _call_in_other_order(world: World, functions: list[Callable[[jax.Array], jax.Array]]) -> None:
    """Reports the number of the call that fails."""
    if world.rank == 1:
        functions = functions[::-1]
    rows, begin = _rows(world), time.monotonic()
    for number, function in enumerate(functions):
        try:
            jax.block_until_ready(function(rows))
        except Exception as error:
            report({"error": str(error), "seconds": time.monotonic() - begin, "call": number})
            return
    report({"call": None})


def functions_of_two_lines_in_other_order(world: World) -> None:
    def plus(x: jax.Array) -> jax.Array:
        return lax.psum(x + 1, "x")

    def minus(x: jax.Array) -> jax.Array:
        return lax.psum(x - 1, "x")

    minus.__name__ = plus.__name__
    _call_in_other_order(world, [world.shard_map(plus), world.shard_map(minus)])


def functions_of_one_line_in_other_order(world: World) -> None:
    _call_in_other_order(world, [world.shard_map(lambda x, c=c: lax.psum(x + c, "x")) for c in (1, -1)])


def two_threads(world: World) -> None:
    rows = _rows(world)
    thread = threading.Thread(target=lambda: jax.block_until_ready(world.shard_map(lambda x: lax.pmax(x, "x"))(rows)))
    thread.start()
    thread.join()
    constant_in_a_sum(world)


def _names(world: World) -> list[str]:
    """A set of strings, in the order that it has on this rank."""
    return ["bias", "weights"] if world.rank == 0 else ["weights", "bias"]


def _values(world: World, size: int = 10) -> dict[str, jax.Array]:
    return {"bias": _rows(world, 10), "weights": 10 * _rows(world, size)}


def _sums_of_a_set(world: World, size: int) -> None:
    names = _names(world)
    function = world.shard_map(lambda values: [lax.psum(values[name], "x") for name in names])
    _report_first_rows(lambda: function(_values(world, size)))


def sums_of_a_set(world: World) -> None:
    _sums_of_a_set(world, 10)


def sums_of_a_set_of_sizes(world: World) -> None:
    _sums_of_a_set(world, 20)


def permutes_into_a_dictionary(world: World) -> None:
    names, pairs = _names(world), [(i, (i + 1) % world.n) for i in range(world.n)]
    function = world.shard_map(lambda values: {name: lax.ppermute(values[name], "x", pairs) for name in names})
    _report_first_rows(lambda: [function(_values(world, size)) for size in (10, 20)])


def one_collective_more(world: World) -> None:
    def step(x: jax.Array) -> jax.Array:
        y = lax.psum(x, "x")
        return lax.pmax(y + x, "x") if world.rank == 1 else y

    _run(world, step)


# Right programs that differ, or ranks that are late.


def subsets_with_programs_of_their_own(world: World) -> None:
    """Ranks 0 and 1 run other programs than 2 and 3, all of one name; then all run one."""
    half = world.rank // 2
    mesh = world.mesh_of([2 * half, 2 * half + 1])

    def step(x: jax.Array) -> jax.Array:
        y = lax.psum(x, "x")
        return y if half == 0 else lax.pmax(lax.psum(y * 3, "x"), "x")

    function = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x")))
    sharding = jax.NamedSharding(mesh, jax.P("x"))
    ones = jax.make_array_from_callback((2, 10), sharding, lambda index: np.ones((2, 10), np.float32)[index])
    if world.rank == 3:
        time.sleep(3)
    results = [function(ones) for _ in range(30)]
    jax.block_until_ready(results)
    if world.rank == 0:
        time.sleep(3)
    _report_first_rows(lambda: [results[-1], world.shard_map(lambda x: lax.psum(x * (1 + half), "x"))(_rows(world))])


def programs_ahead_and_late(world: World) -> None:
    """Rank 0 has all its runs in flight while rank 1 is in an earlier program, then compiles, and comes late."""
    shifted = world.shard_map(lambda x: lax.ppermute(x, "x", [(i, (i + 1) % world.n) for i in range(world.n)]))
    totals = [world.shard_map(lambda x, n=n: lax.psum(x[:, :n], "x")) for n in (2, 3, 4, 5)]
    rows = _rows(world)
    results = []
    for function in [shifted, *totals]:
        if world.rank == 1:
            time.sleep(2.5)
        results.append(function(rows))
    _report_first_rows(lambda: results)


def main() -> None:
    jax.distributed.initialize()
    world = World()
    jax.block_until_ready(world.shard_map(lambda x: lax.psum(x + 1, "x"))(_rows(world, 3)))  # all ranks are running
    globals()[sys.argv[1]](world)
    time.sleep(0.5)  # the launcher stops the job at the first exit: let the others report


if __name__ == "__main__":
    main()
