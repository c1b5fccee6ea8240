"""The cases of tests/e2e on GPUs: each run is counted, and what stays on NCCL is reported.

What a case compares with stock JAX is compared with stock JAX on CPU here, because NCCL's double adds in an order of
its own. A job of `RecordingWorld` writes those results before.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from case_world import World
from executed_collectives import NOTHING, Expected, expected_of, has_ours, left_on_nccl

#: Cases that compare with stock JAX.
COMPARED_WITH_STOCK = (
    *(
        f"gather_and_exchange_keep_every_bit_of_{dtype}"
        for dtype in (
            *("bfloat16", "bool", "complex64", "float16", "float32", "float64"),
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        )
    ),
    "any_and_all_of_sharded_predicates_equal_stock",
    "every_op_in_a_loop_stays_right",
    "every_op_in_a_scan_and_a_branch_stays_right",
    "every_op_on_overlapping_subsets_of_the_devices",
    "every_op_over_all_devices_in_any_order",
    "every_op_over_each_axis_of_a_mesh",
    "every_op_over_each_pair_of_three_axes",
    "every_op_over_groups_chosen_by_index",
    "exchanges_between_each_two_dimensions",
    "exchanges_of_whole_arrays_in_loops_stay_right",
    "gathers_along_each_dimension",
    "gradients_flow_through_every_op",
    "groups_of_several_sizes_sum_by_themselves",
    "independent_loops_branches_and_collectives_of_both_backends_do_not_mix",
    "many_independent_ops_in_one_program_do_not_mix",
    "narrow_floats_are_summed_as_stock_sums_them",
    "narrow_types_move_as_stock_moves_them",
    "partitioner_inserts_gathers_scatters_and_exchanges",
    "programs_with_other_groups_take_turns",
    "scattered_sums_of_any_numbers_differ_by_rounding_only",
    "scattered_sums_of_every_type",
    "scatters_along_each_dimension",
    "several_runs_in_flight_do_not_mix",
    "sharded_training_step_equals_stock",
    "sizes_around_every_limit_are_right",
    "vmap_batches_every_op",
    "empty_arrays_are_no_trouble",
)


class Ledger:
    """The collectives that the compiled modules of this process announce for the runs so far."""

    def __init__(self) -> None:
        self.expected: Expected = NOTHING
        self.left: set[str] = set()

    def enter(self, compiled: Any) -> Expected:
        """Enters a run of a `jax.stages.Compiled`; returns what it announces for this process's devices."""
        text = compiled.as_text()
        self.left |= left_on_nccl(text)
        announced = expected_of(text).times(len(compiled.runtime_executable().local_devices()))
        self.expected += announced
        return announced

    def jit(self, function: Callable[..., Any], **options: Any) -> CountedFunction:
        """`jax.jit` whose runs are entered here."""
        return CountedFunction(_JIT(function, **options), self)


_JIT = jax.jit


class CountedFunction:
    """A jitted function. Before each run its module's collectives are added to the ledger."""

    def __init__(self, function: Any, ledger: Ledger) -> None:
        self._function = function
        self._ledger = ledger
        self._expected: dict[Any, Expected] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = str(jax.tree.map(lambda x: (jax.typeof(x), getattr(x, "sharding", None)), arguments))
        if key in self._expected:
            self._ledger.expected += self._expected[key]
        else:
            self._expected[key] = self._ledger.enter(self._function.lower(*arguments).compile())
        return self._function(*arguments)

    def lower(self, *arguments: Any) -> CountedLowered:
        return CountedLowered(self._function.lower(*arguments), self._ledger)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class CountedLowered:
    """What `lower` returns, with `compile` counted."""

    def __init__(self, lowered: Any, ledger: Ledger) -> None:
        self._lowered = lowered
        self._ledger = ledger

    def compile(self, **options: Any) -> CountedExecutable:
        return CountedExecutable(self._lowered.compile(**options), self._ledger)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lowered, name)


class CountedExecutable:
    """An executable whose runs are entered in the ledger."""

    def __init__(self, compiled: Any, ledger: Ledger) -> None:
        self._compiled = compiled
        self._ledger = ledger

    def __call__(self, *arguments: Any) -> Any:
        self._ledger.enter(self._compiled)
        return self._compiled(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _bits_of(values: np.ndarray) -> np.dtype:
    size = values.dtype.itemsize
    return np.dtype(f"u{size}" if size <= 8 else f"V{size}")


def _compare(got: np.ndarray, want: np.ndarray, within: float, where: str) -> None:
    """Compares bit for bit, but for the payload of a NaN, which GPUs do not keep, or within a relative error."""
    assert got.shape == want.shape, f"{where} has shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"{where} is {got.dtype}, expected {want.dtype}"
    if within and np.allclose(got.astype(np.clongdouble), want.astype(np.clongdouble), rtol=within, atol=within):
        return
    nan = (got != got) & (want != want)
    wrong = np.flatnonzero(~nan & (got.view(_bits_of(got)) != want.view(_bits_of(want))))
    assert not wrong.size, f"element {wrong[0]} of {where} is {got.ravel()[wrong[0]]}, not {want.ravel()[wrong[0]]}"


def _records(directory: Path, case: str, rank: int) -> Path:
    """Where a rank records a case; the number of the comparison is the suffix."""
    return directory / f"{case}-{rank}"


class RecordingWorld(World):
    """A `World` of stock JAX on CPU that writes what `equals_stock` would compare with, and checks nothing."""

    def __init__(self, case: str, recorded: Path) -> None:
        super().__init__()
        self._recorded = _records(recorded, case, self.rank)
        self._compared = 0

    def equals_stock(self, function: Any, *arguments: Any, **_checks: Any) -> Any:
        results = function(*arguments)
        shards = [[np.asarray(shard.data) for shard in leaf.addressable_shards] for leaf in jax.tree.leaves(results)]
        self._recorded.with_suffix(f".{self._compared}").write_bytes(pickle.dumps(shards))
        self._compared += 1
        return results

    def equals(self, result: jax.Array, expected: np.ndarray) -> None:
        pass

    def sums_to(self, result: jax.Array, terms: np.ndarray) -> None:
        pass

    def same_on_all_ranks(self, result: jax.Array) -> None:
        pass

    def _check_calls(self, text: str, calls: int | None, left: Sequence[str]) -> None:
        pass


class GpuWorld(World):
    """A `World` of GPUs.

    XLA:GPU has its own combiners, and a permute or sum may become a pair of calls, so the number of calls that a case
    expects of XLA:CPU does not hold here; that every collective is on NVSHMEM does.
    """

    def __init__(self, case: str, recorded: Path) -> None:
        """`recorded`: where a job of `RecordingWorld` with as many ranks has run this case."""
        super().__init__()
        self._recorded = _records(recorded, case, self.rank)
        self._compared = 0

    def equals_stock(
        self, function: Any, *arguments: Any, times: int = 1, within: float = 0, **_of_xla_cpu: Any
    ) -> Any:
        expected = pickle.loads(self._recorded.with_suffix(f".{self._compared}").read_bytes())
        self._compared += 1
        for _ in range(times):
            results = function(*arguments)
            for got, shards in zip(jax.tree.leaves(results), expected, strict=True):
                for shard, want in zip(got.addressable_shards, shards, strict=True):
                    _compare(np.asarray(shard.data), want, within, f"result at {shard.index}")
        return results

    def equals(self, result: jax.Array, expected: np.ndarray) -> None:
        for shard in result.addressable_shards:
            _compare(np.asarray(shard.data), np.asarray(expected[shard.index], result.dtype), 0, f"{shard.index}")

    def _check_calls(self, text: str, calls: int | None, left: Sequence[str]) -> None:
        assert left_on_nccl(text) == set(left), f"left on NCCL: {left_on_nccl(text)} in:\n{text}"
        if self.n > 1 and calls != 0:
            assert has_ours(text), f"no call of ours in:\n{text}"
