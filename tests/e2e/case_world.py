"""The list of cases, the devices of the job, and the checks against NumPy and across ranks.

A case is a function of a `World`. Every rank of a job runs it, and all ranks run the cases in the same order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# XLA_SHMEM_OPS of the jobs, beside XLA_SHMEM_THRESHOLD=2MiB: all ops, two of them up to a size.
OPS = (
    "all-reduce,collective-permute,all-gather,reduce-scatter<1MiB,all-to-all<1MiB,collective-broadcast,"
    "ragged-all-to-all"
)

# Processes x devices a process.
SHAPES = ("1x1", "2x1", "4x1", "8x1", "2x4", "1x4")

_SHARDED = PartitionSpec("x")
_OURS = re.compile(r'custom_call_target="xla_shmem\.(?!(?:after|begin|end|meet)")(\w+)"')
_LEFT = re.compile(r" (all-reduce|collective-permute|all-gather|reduce-scatter|all-to-all)(?:-start)?\(")


class World:
    """The devices of the job, and the results of one case."""

    def __init__(self) -> None:
        self.devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
        self.n = len(self.devices)
        self.rank = jax.process_index()
        self.ranks = jax.process_count()
        self.mesh = self.mesh_of(range(self.n))
        self.random = np.random.default_rng(7)  # equal on all ranks
        self.digests: list[str] = []

    def mesh_of(self, order: Sequence[int] | range, *shape: int, axes: Sequence[str] = ("x",)) -> Mesh:
        """A mesh of devices, given by their positions in the job."""
        devices = np.array([self.devices[i] for i in order])
        return Mesh(devices.reshape(shape or (len(devices),)), tuple(axes))

    def put(self, values: np.ndarray, *spec: Any, mesh: Mesh | None = None) -> jax.Array:
        """Puts `values` (equal on all ranks) on a mesh; sharded over its first axis if no spec is given."""
        mesh = self.mesh if mesh is None else mesh
        sharding = NamedSharding(mesh, PartitionSpec(*(spec or mesh.axis_names[:1])))
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    def shard_map(
        self,
        body: Callable[..., Any],
        in_specs: Any = _SHARDED,
        out_specs: Any = None,
        mesh: Mesh | None = None,
    ) -> Any:
        """`jit(shard_map(body))`; by default the results are sharded like the operands."""
        out = in_specs if out_specs is None else out_specs
        mapped = jax.shard_map(
            body, mesh=self.mesh if mesh is None else mesh, in_specs=in_specs, out_specs=out, check_vma=False
        )
        return jax.jit(mapped)

    def uses_shmem(self, function: Any, *arguments: Any, calls: int | None = None, left: Sequence[str] = ()) -> None:
        """Checks that `function` is compiled to `calls` SHMEM calls (default: at least one) and no other collective.

        `left`: the op of each collective that stays on gloo.
        """
        self._check_calls(function.lower(*arguments).compile().as_text(), calls, left)

    def equals_stock(
        self,
        function: Any,
        *arguments: Any,
        calls: int | None = None,
        left: Sequence[str] | None = (),
        times: int = 1,
        within: float = 0,
    ) -> Any:
        """Checks that the results of `function` equal stock JAX's bit for bit, and its calls as `uses_shmem` does.

        `left`: None: not checked. `times`: number of runs. `within`: the relative error that another order of
        additions may cause.
        Returns the results.
        """
        from xla_shmem import plugin  # some jobs run without the package

        lowered = function.lower(*arguments)
        ours = lowered.compile()
        self._check_calls(ours.as_text(), calls, left)
        with plugin.stock_collectives():
            # With equal options `lowered` would return `ours` again.
            stock = lowered.compile(compiler_options={"xla_cpu_collective_timeout_seconds": 60})
        assert not _OURS.search(stock.as_text())
        expected = jax.tree.leaves(stock(*arguments))
        for _ in range(times):
            results = ours(*arguments)
            for number, (got, want) in enumerate(zip(jax.tree.leaves(results), expected, strict=True)):
                for shard, stock_shard in zip(got.addressable_shards, want.addressable_shards, strict=True):
                    _compare(np.asarray(shard.data), np.asarray(stock_shard.data), within, f"result {number}")
        return results

    def _check_calls(self, text: str, calls: int | None, left: Sequence[str] | None) -> None:
        ours, others = _OURS.findall(text), _LEFT.findall(text)
        if self.n > 1:
            assert ours if calls is None else len(ours) == calls, f"{len(ours)} calls of ours in:\n{text}"
        assert left is None or others == list(left), f"left on gloo: {others} in:\n{text}"

    def equals(self, result: jax.Array, expected: np.ndarray) -> None:
        """Checks every local shard bit for bit."""
        for shard in result.addressable_shards:
            want = np.asarray(expected[shard.index], result.dtype)
            _compare(np.asarray(shard.data), want, 0, f"{shard.index}")

    def sums_to(self, result: jax.Array, terms: np.ndarray) -> None:
        """Checks sums over axis 0 of `terms` within (n-1) eps sum|x|, and records their bits, to compare ranks."""
        wide = terms.astype(np.longdouble)
        bound = (len(terms) - 1) * np.finfo(terms.dtype).eps * np.abs(wide).sum(0)
        for shard in result.addressable_shards:
            error = np.abs(np.asarray(shard.data).astype(np.longdouble) - wide.sum(0)[shard.index])
            assert (error <= bound[shard.index]).all(), f"off by {error.max()}, allowed {bound[shard.index].max()}"
        self.same_on_all_ranks(result)

    def same_on_all_ranks(self, result: jax.Array) -> None:
        """Records the bits of a replicated result: all local shards must be equal, and later all ranks."""
        digests = {
            hashlib.sha256(np.asarray(shard.data).tobytes()).hexdigest()[:16] for shard in result.addressable_shards
        }
        assert len(digests) == 1, "the devices of one process have different bits"
        self.digests += digests


def _compare(got: np.ndarray, want: np.ndarray, within: float, where: str) -> None:
    assert got.shape == want.shape, f"{where} has shape {got.shape}, expected {want.shape}"
    if within and np.allclose(got.astype(np.clongdouble), want.astype(np.clongdouble), rtol=within, atol=within):
        return
    if got.tobytes() != want.tobytes():
        wrong = np.flatnonzero(_bits(got) != _bits(want))
        at = int(wrong[0]) // max(got.dtype.itemsize, 1)
        raise AssertionError(f"element {at} of {where} is {got.ravel()[at]}, expected {want.ravel()[at]}")


def _bits(values: np.ndarray) -> np.ndarray:
    return np.frombuffer(values.tobytes(), np.uint8)


@dataclass(frozen=True)
class Case:
    """A case and the job shapes it runs on."""

    run: Callable[[World], None]
    fast: tuple[str, ...]
    slow: tuple[str, ...]


CASES: dict[str, Case] = {}


def case(
    fast: Sequence[str] = ("2x1",), slow: Sequence[str] = SHAPES, name: str = "", cases: dict[str, Case] = CASES
) -> Callable[..., Any]:
    """Adds a function to `cases`: `make test` runs it on the shapes `fast`, `make test-e2e-slow` on `slow`."""

    def add(run: Callable[[World], None]) -> Callable[[World], None]:
        key = name or run.__name__
        assert key not in cases, key
        cases[key] = Case(run, tuple(fast), tuple(shape for shape in slow if shape not in fast))
        return run

    return add
