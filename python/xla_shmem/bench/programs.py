"""The timed programs: a loop around one collective, compiled by XLA like a user's program.

Out of place (the result has its own buffer) the loop is

    y = collective(x);  x[0] = y[0] if never else x[0]

`never` is an argument that is always false. Without it XLA would find that x does not change, and move the collective
out of the loop. In place the loop is `x = collective(x)`. XLA:CPU does not let a collective overwrite its operand there
either and adds a copy to every turn, for all transports (docs/bench.md).

The number of turns is an argument too, so that warm-up, check and timing use the same executable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xla_shmem import _core
from xla_shmem.bench import data
from xla_shmem.bench.plan import Cell

_AXES = ("group", "x")
_SHARDED = P(_AXES)  # type: ignore[no-untyped-call]
_REPLICATED = P()  # type: ignore[no-untyped-call]
_OURS = re.compile(r'custom_call_target="xla_shmem\.')
_COLLECTIVE = re.compile(
    r'custom_call_target="xla_shmem\.|'
    r" (?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)\("
)
_WHY_NOT = ("xla_shmem.veto", "xla_shmem.reason")


class NotCarried(Exception):
    """A transport cannot run this collective. The message says why."""


def mesh_of_job(group: int) -> Mesh:
    """Returns the mesh of the job. Devices are ordered by (process, device id); neighbours form groups of `group`."""
    devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(devices).reshape(-1, group), _AXES)


def _collective(cell: Cell) -> Callable[[Any], Any]:
    ring = [(i, (i + 1) % cell.group) for i in range(cell.group)]
    reduce = {"sum": lax.psum, "min": lax.pmin, "max": lax.pmax}
    return {
        "collective-permute": lambda x: lax.ppermute(x, "x", ring),  # type: ignore[no-untyped-call]
        "all-reduce": lambda x: reduce[cell.reduction](x, "x"),  # type: ignore[no-untyped-call]
        "all-gather": lambda x: lax.all_gather(x, "x", tiled=True),
        "reduce-scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),  # type: ignore[no-untyped-call]
        "all-to-all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),  # type: ignore[no-untyped-call]
        "collective-broadcast": lambda x: lax.pbroadcast(x, "x", 0),  # type: ignore[no-untyped-call]
    }[cell.op]


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

    Raises:
      NotCarried: this transport cannot run the collective.
    """

    def __init__(self, cell: Cell, *, carried: bool | None) -> None:
        self._cell = cell
        self._mesh = mesh_of_job(cell.group)
        self._sharding = NamedSharding(self._mesh, _SHARDED)
        self._places = {device: place for place, device in enumerate(self._mesh.devices.flat)}
        self._buffers = self._fresh_buffers()
        self._compiled = self._compile()
        text = self._compiled.as_text()
        if carried and not _OURS.search(text):
            raise NotCarried(why_not(text))
        if carried is False and _OURS.search(text):
            raise RuntimeError("the pass moved a collective that had to stay with stock XLA")
        if _COLLECTIVE.search(text[text.index("\nENTRY ") :]):
            raise RuntimeError(f"XLA moved the {cell.op} out of the loop:\n{text}")

    @property
    def record(self) -> dict[str, Any]:
        """The collective as the pass describes it (`_core.CollectiveRecord`)."""
        (module,) = self._compiled.runtime_executable().hlo_modules()
        (record,) = _core.inspect_module(module.as_serialized_hlo_module_proto())
        return dict(record)

    def run(self, turns: int) -> None:
        """Runs the collective `turns` times and waits until it is done."""
        self._buffers = self._compiled(np.int32(turns), np.False_, *self._buffers)
        jax.block_until_ready(self._buffers)  # type: ignore[no-untyped-call]

    def wrong(self) -> int:
        """Runs the collective once and returns the number of wrong elements in this process's results."""
        self._buffers = self._fresh_buffers()
        self.run(1)
        result = self._buffers[-1]
        return sum(
            data.wrong_elements(np.asarray(shard.data), data.expected(self._cell, self._places[shard.device]))
            for shard in result.addressable_shards
        )

    def _fresh_buffers(self) -> tuple[Any, ...]:
        operand = self._sharded(lambda pe: data.operand(self._cell, pe))
        if self._cell.in_place:
            return (operand,)
        # So that a result that was never written is wrong.
        return operand, self._sharded(lambda pe: data.unwritten(self._cell))

    def _sharded(self, values: Callable[[int], data.Array]) -> Any:
        shards = [
            jax.device_put(values(place), device)
            for device, place in self._places.items()
            if device.process_index == jax.process_index()
        ]
        # XLA would run a program with unfinished operands on another thread, which MPI forbids.
        jax.block_until_ready(shards)  # type: ignore[no-untyped-call]
        shape = (shards[0].size * len(self._places),)
        return jax.make_array_from_single_device_arrays(shape, self._sharding, shards)

    def _compile(self) -> Any:
        collective = _collective(self._cell)

        def in_place(turns: Any, never: Any, x: Any) -> Any:
            return (lax.fori_loop(0, turns, lambda _, x: collective(x), x),)

        def out_of_place(turns: Any, never: Any, x: Any, y: Any) -> Any:
            def turn(_: Any, buffers: Any) -> Any:
                x, _ = buffers
                y = collective(x)
                # With a constant index XLA would read from one part of an all-to-all and keep the parts apart.
                first = lax.dynamic_index_in_dim(y, never.astype(np.int32), keepdims=False)
                return x.at[0].set(lax.select(never, first, x[0])), y

            return lax.fori_loop(0, turns, turn, (x, y))

        sharded = (_SHARDED,) * len(self._buffers)
        mapped = jax.shard_map(
            in_place if self._cell.in_place else out_of_place,
            mesh=self._mesh,
            in_specs=(_REPLICATED, _REPLICATED, *sharded),
            out_specs=sharded,
            check_vma=False,
        )
        # Donated, so that a program does not begin with a copy of its operands.
        donated = tuple(range(2, 2 + len(self._buffers)))
        return jax.jit(mapped, donate_argnums=donated).lower(np.int32(1), np.False_, *self._buffers).compile()


def why_not(text: str) -> str:
    """Returns why the pass did not move the collective of a compiled module, as the module says."""
    for attribute in _WHY_NOT:
        if found := re.search(rf'{re.escape(attribute)}="((?:[^"\\]|\\.)*)"', text):
            return found.group(1)
    return "the pass did not run; check with `xla-shmem doctor` that JAX finds the plugin"
