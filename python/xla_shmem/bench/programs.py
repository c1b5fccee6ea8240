"""The timed programs: a loop around one collective, compiled by XLA like a user's program.

Out of place (the result has its own buffer) the loop is

    y = collective(x);  x[0] = y[0] if never else x[0]

`never` is an argument that is always false. Without it XLA would find that x does not change, and move the collective
out of the loop. In place the loop is `x = collective(x)`. XLA:CPU does not let a collective overwrite its operand there
either and adds a copy to every turn, for all transports (docs/bench.md).

On CPU the number of turns is an argument too, so that warm-up, check and timing use the same executable. On GPU a
program has a fixed number of turns and is called several times without waiting for it (`Plan.turns_per_call`).
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xla_shmem import _core
from xla_shmem.bench import operands
from xla_shmem.bench.plan import Cell

_AXES = ("group", "x")
_SHARDED = P(_AXES)  # type: ignore[no-untyped-call]
_REPLICATED = P()  # type: ignore[no-untyped-call]

_EMPTY_CALL = "xla_shmem.empty"
_EMPTY_CALL_ELEMENTS = 1024  # 4 KiB of f32; not copied, because the result is the buffer of the operand


class NotCarried(Exception):
    """A transport cannot run this collective. The message says why."""


def mesh_of_job(group: int) -> Mesh:
    """Returns the mesh of the job. Devices are ordered by (process, device id); neighbours form groups of `group`."""
    devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(devices).reshape(-1, group), _AXES)


def _collective(cell: Cell) -> Callable[[Any, Any], Any]:
    """Returns the collective as a function of its operand and of the buffer for its result, which few need."""
    ring = [(i, (i + 1) % cell.group) for i in range(cell.group)]
    reduce = {"sum": lax.psum, "min": lax.pmin, "max": lax.pmax}
    return {
        "collective-permute": lambda x, y: lax.ppermute(x, "x", ring),  # type: ignore[no-untyped-call]
        "all-reduce": lambda x, y: reduce[cell.reduction](x, "x"),  # type: ignore[no-untyped-call]
        "all-gather": lambda x, y: lax.all_gather(x, "x", tiled=True),
        "reduce-scatter": lambda x, y: lax.psum_scatter(x, "x", tiled=True),  # type: ignore[no-untyped-call]
        "all-to-all": lambda x, y: lax.all_to_all(x, "x", 0, 0, tiled=True),  # type: ignore[no-untyped-call]
        "collective-broadcast": lambda x, y: lax.pbroadcast(x, "x", 0),  # type: ignore[no-untyped-call]
        "ragged-all-to-all": lambda x, y: _ragged(cell, x, y),
    }[cell.op]


def _ragged(cell: Cell, x: Any, y: Any) -> Any:
    starts = jnp.arange(cell.group, dtype=np.int32) * np.int32(cell.count)
    sizes = jnp.full(cell.group, cell.count, np.int32)
    places = jnp.full(cell.group, cell.count, np.int32) * lax.axis_index("x")
    return lax.ragged_all_to_all(  # type: ignore[no-untyped-call]
        x, y, starts, sizes, places, sizes, axis_name="x"
    )


def let_cpu_broadcast() -> None:
    """Registers the lowering of `lax.pbroadcast` for CPU.

    JAX does not, because XLA:CPU cannot compile a collective-broadcast. The pass replaces it before that.
    """
    from jax._src.lax import parallel
    from jax.interpreters import mlir

    lowering = parallel._pbroadcast_lowering  # type: ignore[attr-defined, unused-ignore]
    mlir.register_lowering(parallel.pbroadcast_p, lowering, platform="cpu")  # type: ignore[attr-defined, unused-ignore]


class Program:
    """A cell's loop, compiled for one transport, with its operands.

    Args:
      cell: the collective to run.
      carried: whether the pass must move the collective to SHMEM; None: its rules decide.
      turns_per_call: collectives of one call; None if a call takes their number.

    Raises:
      NotCarried: this transport cannot run the collective.
    """

    def __init__(self, cell: Cell, *, carried: bool | None, turns_per_call: int | None = None) -> None:
        self._cell = cell
        self._turns = turns_per_call
        self._mesh = mesh_of_job(cell.group)
        self._sharding = NamedSharding(self._mesh, _SHARDED)
        self._places = {device: place for place, device in enumerate(self._mesh.devices.flat)}
        everywhere = NamedSharding(self._mesh, _REPLICATED)
        self._never = jax.make_array_from_callback((), everywhere, lambda _: np.zeros((), bool))
        jax.block_until_ready(self._never)  # type: ignore[no-untyped-call]
        self._buffers = self._fresh_buffers()
        self._compiled = self._compile(turns_per_call)
        records = _records(self._compiled)
        if not _in_loop(records, turns_per_call):
            raise RuntimeError(f"XLA moved the {cell.op} out of the loop:\n{self._compiled.as_text()}")
        #: The collective as the pass describes it (`_core.CollectiveRecord`).
        self.record = records[0]
        # Of a collective that is divided by host only some parts are.
        ours = any(record["lowered"] == "NVSHMEM" for record in records)
        if carried and not ours:
            raise NotCarried(why_not(self.record))
        if carried is False and ours:
            raise RuntimeError("the pass moved a collective that had to stay with stock XLA")

    def run(self, turns: int) -> int:
        """Runs the collective `turns` times, or a few times more, and waits until it is done.

        Returns:
          how often it ran: `turns`, or the next multiple of `turns_per_call`.
        """
        if self._turns is None:
            self._buffers = self._compiled(np.int32(turns), self._never, *self._buffers)
            calls, ran = 1, turns
        else:
            calls = -(-turns // self._turns)
            ran = calls * self._turns
            for _ in range(calls):
                self._buffers = self._compiled(self._never, *self._buffers)
        jax.block_until_ready(self._buffers)  # type: ignore[no-untyped-call]
        return ran

    def wrong(self) -> int:
        """Runs the collective once and returns the number of wrong elements in this process's results.

        A program with a fixed number of turns runs all: out of place each has the same operand. In place another
        program runs it once.
        """
        self._buffers = self._fresh_buffers()
        if self._turns is not None and self._cell.in_place:
            self._buffers = self._compile(1)(self._never, *self._buffers)
        else:
            self.run(1)
        result = self._buffers[-1]
        return sum(
            operands.wrong_elements(np.asarray(shard.data), operands.expected(self._cell, self._places[shard.device]))
            for shard in result.addressable_shards
        )

    def _fresh_buffers(self) -> tuple[Any, ...]:
        operand = self._sharded(lambda pe: operands.operand(self._cell, pe))
        if self._cell.in_place:
            return (operand,)
        # So that a result that was never written is wrong.
        return operand, self._sharded(lambda pe: operands.unwritten(self._cell))

    def _sharded(self, values: Callable[[int], operands.Array]) -> Any:
        shards = [
            jax.device_put(values(place), device)
            for device, place in self._places.items()
            if device.process_index == jax.process_index()
        ]
        # XLA would run a program with unfinished operands on another thread, which MPI forbids.
        jax.block_until_ready(shards)  # type: ignore[no-untyped-call]
        shape = (shards[0].size * len(self._places),)
        return jax.make_array_from_single_device_arrays(shape, self._sharding, shards)

    def _compile(self, fixed_turns: int | None) -> Any:
        collective = _collective(self._cell)

        def in_place(turns: Any, never: Any, x: Any) -> Any:
            return (lax.fori_loop(0, turns, lambda _, x: collective(x, x), x),)

        def out_of_place(turns: Any, never: Any, x: Any, y: Any) -> Any:
            def turn(_: Any, buffers: Any) -> Any:
                x, y = buffers
                y = collective(x, y)
                # With a constant index XLA would read from one part of an all-to-all and keep the parts apart.
                first = lax.dynamic_index_in_dim(y, never.astype(np.int32), keepdims=False)
                return x.at[0].set(lax.select(never, first, x[0])), y

            return lax.fori_loop(0, turns, turn, (x, y))

        loop: Callable[..., Any] = in_place if self._cell.in_place else out_of_place
        arguments: tuple[Any, ...] = (np.int32(1), self._never)
        if fixed_turns is not None:
            loop, arguments = functools.partial(loop, fixed_turns), (self._never,)
        sharded = (_SHARDED,) * len(self._buffers)
        mapped = jax.shard_map(
            loop,
            mesh=self._mesh,
            in_specs=(*(_REPLICATED,) * len(arguments), *sharded),
            out_specs=sharded,
            check_vma=False,
        )
        # Donated, so that a program does not begin with a copy of its operands. Not where each call would: jax 0.10.2
        # drops donation when the pass has changed a module, so SHMEM's calls would copy, and those of others not.
        donated = tuple(range(len(arguments), len(arguments) + len(self._buffers))) if fixed_turns is None else ()
        return jax.jit(mapped, donate_argnums=donated).lower(*arguments, *self._buffers).compile()


def _records(compiled: Any) -> list[dict[str, Any]]:
    (module,) = compiled.runtime_executable().hlo_modules()
    return [dict(record) for record in _core.inspect_module(module.as_serialized_hlo_module_proto())]


def _in_loop(records: list[dict[str, Any]], turns: int | None) -> bool:
    """Returns whether the collective runs in each turn; XLA may have unrolled a loop of a fixed number of turns."""
    if turns is None:
        return bool(records) and all(record["in_loop"] for record in records)
    return sum(record["executions"] or 0 for record in records) == turns


def why_not(record: dict[str, Any]) -> str:
    """Returns why the pass did not move a collective, by its record."""
    if record["rule"] == "stock":
        return "the pass did not run; check with `xla-shmem doctor` that JAX finds the plugin"
    return str(record["veto"] or record["reason"])


class EmptyCall:
    """The time of an FFI call that does nothing: XLA's overhead, which every transport has.

    Two compiled loops on one device of this process: one calls an empty FFI handler, the other one does not."""

    def __init__(self) -> None:
        jax.ffi.register_ffi_target(_EMPTY_CALL, _core.empty_call(), platform="cpu")
        shape = jax.ShapeDtypeStruct((_EMPTY_CALL_ELEMENTS,), np.float32)  # type: ignore[no-untyped-call]
        call = jax.ffi.ffi_call(_EMPTY_CALL, shape, input_output_aliases={0: 0}, has_side_effect=True)
        self._loops = [_empty_call_loop(call), _empty_call_loop(lambda x: x)]

    def us(self, turns: int, runs: int) -> float:
        """Returns µs per call: the difference between a turn of both loops, median of `runs` pairs."""
        return statistics.median(self._seconds(0, turns) - self._seconds(1, turns) for _ in range(runs)) / turns * 1e6

    def _seconds(self, loop: int, turns: int) -> float:
        x = jax.device_put(np.zeros(_EMPTY_CALL_ELEMENTS, np.float32), jax.local_devices()[0])
        jax.block_until_ready(x)  # type: ignore[no-untyped-call]
        start = time.perf_counter()
        jax.block_until_ready(self._loops[loop](np.int32(turns), np.False_, x))  # type: ignore[no-untyped-call]
        return time.perf_counter() - start


def _empty_call_loop(call: Callable[[Any], Any]) -> Any:
    def turn(never: Any, x: Any) -> Any:
        y = call(x)
        return y.at[0].set(lax.select(never, y[1], y[0]))

    def loop(turns: Any, never: Any, x: Any) -> Any:
        return lax.fori_loop(0, turns, lambda _, x: turn(never, x), x)

    device = jax.local_devices()[0]
    with jax.default_device(device):
        x = np.zeros(_EMPTY_CALL_ELEMENTS, np.float32)
        compiled = jax.jit(loop, donate_argnums=2).lower(np.int32(1), np.False_, x).compile()
    return compiled
