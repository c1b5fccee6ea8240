"""Jobs that fail, each in one way. The ranks that get an error report it and the time until it came.

Argument: the kind of failure (a function below).
"""

from __future__ import annotations

import functools
import os
import re
import signal
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


def _total(world: World, size: int = 100) -> jax.Array:
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    return function(world.put(np.ones((world.n, size), np.float32)))


def _shifted(world: World) -> jax.Array:
    function = world.shard_map(lambda x: lax.ppermute(x, "x", [(i, (i + 1) % world.n) for i in range(world.n)]))
    return function(world.put(np.ones((world.n, 10), np.float32)))


def _report_error_of(run: Callable[[], object], again: Callable[[], object] | None = None) -> None:
    begin = time.monotonic()
    facts: dict[str, object] = {}
    try:
        jax.block_until_ready(run())
    except Exception as error:
        facts = {"error": str(error), "seconds": time.monotonic() - begin}
    if again is not None:
        begin = time.monotonic()
        try:
            jax.block_until_ready(again())
        except Exception as error:
            facts |= {"again": str(error), "again_seconds": time.monotonic() - begin}
    report(facts)


def absent_from_a_sum(world: World) -> None:
    if world.rank == world.ranks - 1:
        time.sleep(60)
    _report_error_of(lambda: _total(world), lambda: _shifted(world))


def absent_from_a_permute(world: World) -> None:
    if world.rank == world.ranks - 1:
        time.sleep(60)
    _report_error_of(lambda: _shifted(world))


def killed_in_a_collective(world: World) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher stops all ranks as soon as one has died
    _report_error_of(lambda: _sums_until_signalled(world, signal.SIGKILL))


def stopped_in_a_collective(world: World) -> None:
    _report_error_of(lambda: _sums_until_signalled(world, signal.SIGSTOP))


def _sums_until_signalled(world: World, number: signal.Signals) -> None:
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    ones = world.put(np.ones((world.n, 1 << 17), np.float32))
    jax.block_until_ready(function(ones))  # the signal comes in a collective, not while one rank compiles
    if world.rank == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    while True:
        jax.block_until_ready(function(ones))


def exits_with_an_exception(world: World) -> None:
    if world.rank == 1:
        raise RuntimeError("rank 1 has had enough")
    _report_error_of(lambda: _total(world))


def exits_with_code_5(world: World) -> None:
    if world.rank == 1:
        sys.exit(5)
    _report_error_of(lambda: _total(world))
    sys.exit(1)


def comes_late(world: World) -> None:
    if world.rank == 1:
        time.sleep(3)
    _report_error_or_values(lambda: _total(world, 10))
    sys.exit(0)


def works_on_after_the_error(world: World) -> None:
    """The rank of the second argument has an error of its own, and others of their deadline. All catch it."""
    try:
        if world.rank == int(sys.argv[2]):
            raise ValueError("bad input file")
        jax.block_until_ready(_total(world))
        raise AssertionError("the sum has come")
    except (ValueError, RuntimeError):
        time.sleep((world.n - 1 - world.rank) * 2)  # an emergency checkpoint
    report({"saved": True})
    sys.exit(0)


def ends_with_a_sum_under_way(world: World) -> None:
    """Rank 1 comes to its end while a long computation is under way, and rank 0 needs the sum behind it."""

    def step(x: jax.Array) -> jax.Array:
        waste = lax.fori_loop(0, 60, lambda _, y: jnp.tanh(y @ y), jnp.ones((500, 500)) * lax.axis_index("x"))
        return lax.psum(x + 0 * waste[0, 0], "x")

    function = world.shard_map(step)
    ones = world.put(np.ones((world.n, 10), np.float32))
    if world.rank == 1:
        function(ones)
    else:
        _report_error_or_values(lambda: function(ones))
    sys.exit(0)


def runs_another_shape(world: World) -> None:
    _report_error_of(lambda: _total(world, 100 + world.rank))


def _report_error_or_values(run: Callable[[], jax.Array]) -> None:
    begin = time.monotonic()
    try:
        report({"values": np.asarray(run().addressable_shards[0].data).ravel().tolist()})
    except Exception as error:
        report({"error": str(error), "seconds": time.monotonic() - begin})


def _run_copy(world: World, factor: float, order: list[int], shape: tuple[int, int] = (1, 10)) -> None:
    """A sum of arrays of a shape and a permute, in a program that has one name on all ranks."""
    mesh = world.mesh_of(order)

    def step(x: jax.Array) -> jax.Array:
        total = lax.psum(x.reshape(shape) * factor, "x").reshape(x.shape)
        return total + lax.ppermute(x, "x", [(i, (i + 1) % world.n) for i in range(world.n)])

    function = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x")))
    _report_error_or_values(lambda: function(world.put(np.ones((world.n, 10), np.float32), mesh=mesh)))


def copy_with_another_shape(world: World) -> None:
    _run_copy(world, 2.0, list(range(world.n)), (5, 2) if world.rank == world.n - 1 else (2, 5))


def copy_with_another_constant(world: World) -> None:
    """On CPU no failure."""
    _run_copy(world, 3.0 if world.rank == world.n - 1 else 2.0, list(range(world.n)))


def copy_with_another_mesh(world: World) -> None:
    order = list(range(world.n))
    _run_copy(world, 2.0, order[::-1] if world.rank == 0 else order)


def one_program_in_two_threads(world: World) -> None:
    """On rank 0 both threads are in the first collective; rank 1 has not begun."""
    function = world.shard_map(lambda x: lax.psum(x * 5, "x"))
    operands = [world.put(np.full((world.n, 8), value, np.float32)) for value in (1, 2)]
    function(operands[0]).block_until_ready()  # the first call of a function keeps other threads out
    if world.rank == 1:
        time.sleep(1)
    threads = [
        threading.Thread(target=_report_error_or_values, args=(functools.partial(function, operand),))
        for operand in operands
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if world.rank == 0:
        time.sleep(3)  # rank 1 has not begun, and would not outlive the coordinator


def overlaps_with_another_constant(world: World) -> None:
    factor = 2.0 if world.rank == 0 else 3.0
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]
    function = world.shard_map(lambda x: lax.ppermute(x[0], "x", pairs)[None] + x @ (factor * x))
    _report_error_or_values(lambda: function(world.put(np.ones((world.n, 64, 64), np.float32))))


def programs_in_another_order(world: World) -> None:
    ones = world.put(np.ones((world.n, 10), np.float32))
    first, second = (world.shard_map(lambda x, c=c: lax.psum(x * c, "x")) for c in (2.0, 3.0))
    if world.rank != 0:
        first, second = second, first
    _report_error_or_values(lambda: first(ones) + second(ones))


def call_that_a_handler_refuses(world: World) -> None:
    """Rank 1 runs a call with a group that it is not in, while rank 0 waits for it in a sum."""
    ones = world.put(np.ones((world.n, 10), np.float32))
    function = world.shard_map(lambda x: lax.psum(x, "x"))
    if world.rank == 1:
        topology = re.search(r"topology = (-?\d+)", function.lower(ones).compile().as_text())
        assert topology is not None
        call = jax.ffi.ffi_call("xla_shmem.all_reduce", jax.ShapeDtypeStruct((1, 10), np.float32), has_side_effect=True)
        texts = {"module": "jit_wrong", "name": "call", "reduction": "sum"}
        groups = {"group_offsets": np.array([0, 1]), "groups": np.array([0])}
        function = world.shard_map(lambda x: call(x, op=np.int64(1), topology=np.int64(topology[1]), **texts, **groups))
    _report_error_of(lambda: function(ones))


def _exchange_rows(world: World, array: int, index: int, change: int) -> None:
    """A ragged all-to-all of five rows for every PE. PE 0 has a wrong number.

    `array`: offsets in the input, sizes, offsets in the output or sizes of the others, in this order.
    """

    def send(x: jax.Array, *numbers: jax.Array) -> jax.Array:
        return lax.ragged_all_to_all(x[0], x[0] * 0, *(number[0] for number in numbers), axis_name="x")[None]

    rows, sizes = np.ones((world.n, 5 * world.n, 3), np.float32), np.full((world.n, world.n), 4)
    starts = np.tile(5 * np.arange(world.n), (world.n, 1))
    numbers = [number.astype(np.int32) for number in (starts, sizes, 5 * np.indices(sizes.shape)[0], sizes)]
    numbers[array][0, index] += change
    function = world.shard_map(send)
    _report_error_of(lambda: function(*(world.put(x) for x in (rows, *numbers))))


def sends_rows_that_its_input_does_not_have(world: World) -> None:
    _exchange_rows(world, 0, -1, 2)


def sends_rows_past_the_end_of_an_output(world: World) -> None:
    _exchange_rows(world, 2, -1, 100)


def expects_more_rows_than_it_gets(world: World) -> None:
    _exchange_rows(world, 3, -1, 1)


def main() -> None:
    jax.distributed.initialize()
    world = World()
    jax.block_until_ready(_total(world, 7))  # all ranks are running
    globals()[sys.argv[1]](world)
    time.sleep(0.5)  # the launcher stops the job at the first exit: let the others report
    os._exit(3)  # JAX's shutdown would wait for the dead rank


if __name__ == "__main__":
    main()
