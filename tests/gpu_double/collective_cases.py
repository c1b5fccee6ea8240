"""Collectives through the real FFI handlers, compared with NumPy.

A case is a function of a `Rank`. Every process of the job runs all of them, in this order. Slots hold some 20 KiB here,
so that a few hundred KiB go round the rings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
from operations import Operation

if TYPE_CHECKING:
    from doubled_process import Executable, Gpu

    from xla_shmem.runtime.store import Store

CASES: dict[str, Callable[[Rank], None]] = {}

Pairs = Sequence[tuple[int, int]]


def case(function: Callable[[Rank], None]) -> Callable[[Rank], None]:
    """Adds a function to the cases."""
    CASES[function.__name__] = function
    return function


@dataclass
class Rank:
    """This process, and the state that cases share.

    Attributes:
      me, n: number of this process and of all.
      topology: fingerprint.
    """

    me: int
    n: int
    gpu: Gpu
    xla: Executable
    store: Store
    topology: int
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def permute(self, pairs: Pairs) -> Operation:
        """A new operation of this program."""
        return Operation.permute(next(self._numbers), self.topology, pairs)

    def all_reduce(self, reduction: str, groups: Sequence[Sequence[int]]) -> Operation:
        """A new operation of this program."""
        return Operation.all_reduce(next(self._numbers), self.topology, reduction, groups)

    def ring(self) -> Pairs:
        """Each PE sends to the next one."""
        return [(pe, (pe + 1) % self.n) for pe in range(self.n)]


def values(pe: int, dtype: str, elements: int, salt: int = 0) -> np.ndarray:
    """Returns the values of a PE. They differ by PE and are so small that the order of a sum only changes rounding."""
    numbers = np.random.default_rng([pe, salt, elements]).standard_normal(elements) * 8
    return numbers.astype(np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else dtype)


def check(result: np.ndarray, expected: np.ndarray) -> None:
    """Checks that two arrays have equal bits."""
    if result.tobytes() != expected.tobytes():
        wrong = np.flatnonzero(result.view(np.uint8) != expected.view(np.uint8))
        raise AssertionError(f"{len(wrong)} wrong bytes, the first at {wrong[0]} of {result.nbytes}")


def permuted(pairs: Pairs, me: int, own: list[np.ndarray], of: Callable[[int], list[np.ndarray]]) -> list[np.ndarray]:
    """Returns the expected result of a permute on a PE."""
    source = next((source for source, target in pairs if target == me), None)
    return [np.zeros_like(array) for array in own] if source is None else of(source)


def run_permute(rank: Rank, pairs: Pairs, shapes: Sequence[tuple[str, int]], rounds: int = 3) -> None:
    """Start, done, and commands behind it on XLA's stream that overwrite the operands at once."""
    operation = rank.permute(pairs)
    rank.xla.instantiate(operation)

    def of(pe: int, salt: int) -> list[np.ndarray]:
        return [values(pe, dtype, elements, salt) for dtype, elements in shapes]

    operands = [[*map(np.empty_like, of(rank.me, 0))] for _ in range(rounds)]
    results = [[*map(np.empty_like, of(rank.me, 0))] for _ in range(rounds)]
    originals = [of(rank.me, salt) for salt in range(rounds)]
    for turn in range(rounds):
        for operand, original in zip(operands[turn], originals[turn], strict=True):
            rank.gpu.copy(operand, original)
        rank.xla.start(operation, operands[turn], results[turn], turn)
        rank.xla.done(operation, operands[turn], results[turn], turn)
        for operand in operands[turn]:
            rank.gpu.fill(operand, 0xEE)
    rank.gpu.synchronize()
    for turn in range(rounds):
        expected = permuted(pairs, rank.me, originals[turn], lambda pe, turn=turn: of(pe, turn))  # type: ignore[misc]
        for result, wanted in zip(results[turn], expected, strict=True):
            check(result, wanted)


def reduced(reduction: str, members: list[np.ndarray]) -> np.ndarray:
    """Reduces in group order; bf16 in f32 with one rounding."""
    total = members[0].astype(np.float32) if members[0].dtype == ml_dtypes.bfloat16 else members[0]
    for member in members[1:]:
        total = {"sum": np.add, "min": np.minimum, "max": np.maximum}[reduction](total, member.astype(total.dtype))
    return total.astype(members[0].dtype)


def run_all_reduce(
    rank: Rank,
    groups: Sequence[Sequence[int]],
    shapes: Sequence[tuple[str, int]],
    reduction: str = "sum",
    self_joined: bool = False,
    in_place: bool = False,
) -> None:
    """Runs one all-reduce of combined `shapes`."""
    operation = rank.all_reduce(reduction, groups)
    rank.xla.instantiate(operation)
    group = next(group for group in groups if rank.me in group)
    operands = [values(rank.me, dtype, elements) for dtype, elements in shapes]
    results = operands if in_place else [np.empty_like(operand) for operand in operands]
    if self_joined:
        rank.xla.self_joined(operation, operands, results)
    else:
        rank.xla.start(operation, operands, results)
        rank.xla.done(operation, [] if in_place else operands, results)
    rank.gpu.synchronize()
    for result, (dtype, elements) in zip(results, shapes, strict=True):
        check(result, reduced(reduction, [values(pe, dtype, elements) for pe in group]))


def halves(n: int) -> list[list[int]]:
    """Returns groups of two in crossed order; a last odd PE is alone."""
    return [[pe for pe in (low + n // 2, low) if pe < n] for low in range(n // 2)] + [[n - 1]] * (n % 2)


@case
def permute_round_a_ring(rank: Rank) -> None:
    run_permute(rank, rank.ring(), [("float32", 1000)], rounds=30)


@case
def permute_more_than_all_slots(rank: Rank) -> None:
    run_permute(rank, rank.ring(), [("float32", 200_001)])


@case
def permute_down_an_open_chain(rank: Rank) -> None:
    run_permute(rank, rank.ring()[:-1], [("int32", 5000)])


@case
def permute_to_oneself_and_nowhere(rank: Rank) -> None:
    run_permute(rank, [(0, 0)], [("bfloat16", 777)])


@case
def permute_operands_of_several_types_combined(rank: Rank) -> None:
    run_permute(
        rank, [(b, a) for a, b in rank.ring()], [("float32", 3), ("bfloat16", 70_000), ("int8", 0), ("bool", 9)]
    )


@case
def permute_in_place(rank: Rank) -> None:
    operation = rank.permute(rank.ring())
    buffer = values(rank.me, "float32", 150_000)
    rank.xla.start(operation, [buffer], [buffer])
    rank.xla.done(operation, [], [buffer])
    rank.gpu.synchronize()
    check(buffer, values((rank.me - 1) % rank.n, "float32", 150_000))


@case
def compute_goes_on_between_start_and_done(rank: Rank) -> None:
    # The others start only when process 0 has seen its own compute end behind its start.
    operation = rank.permute(rank.ring())
    operand, result = values(rank.me, "float32", 60_000), np.empty(60_000, np.float32)
    source, target = values(rank.me, "float64", 999, 1), np.empty(999)
    if rank.me != 0:
        rank.store.wait("overlap", 15)
    rank.xla.start(operation, [operand], [result])
    rank.gpu.copy(target, source)
    if rank.me == 0:
        rank.gpu.synchronize(5)
        check(target, source)
        rank.store.set("overlap", "compute has ended")
    rank.xla.done(operation, [operand], [result])
    rank.gpu.synchronize()
    check(result, values((rank.me - 1) % rank.n, "float32", 60_000))
    check(target, source)


@case
def several_transfers_in_flight(rank: Rank) -> None:
    forward, back = rank.permute(rank.ring()), rank.permute([(b, a) for a, b in rank.ring()])
    total = rank.all_reduce("sum", [list(range(rank.n))])
    operand = values(rank.me, "float32", 30_000)
    results = [np.empty_like(operand) for _ in range(3)]
    rank.xla.start(forward, [operand], results[:1])
    rank.xla.start(total, [operand], results[1:2])
    rank.xla.start(back, [operand], results[2:])
    for operation, result in ((back, results[2]), (forward, results[0]), (total, results[1])):
        rank.xla.done(operation, [operand], [result])
    rank.gpu.synchronize()
    check(results[0], values((rank.me - 1) % rank.n, "float32", 30_000))
    check(results[1], reduced("sum", [values(pe, "float32", 30_000) for pe in range(rank.n)]))
    check(results[2], values((rank.me + 1) % rank.n, "float32", 30_000))


@case
def all_reduce_small_and_large(rank: Rank) -> None:
    everybody = [list(range(rank.n))]
    for elements in (1, 1003, 400_000):
        run_all_reduce(rank, everybody, [("float32", elements)])


@case
def all_reduce_types_combined_in_place(rank: Rank) -> None:
    everybody = [list(reversed(range(rank.n)))]
    run_all_reduce(rank, everybody, [("bfloat16", 5001), ("float32", 17), ("int32", 300)], "min", in_place=True)


@case
def all_reduce_in_groups(rank: Rank) -> None:
    run_all_reduce(rank, halves(rank.n), [("float32", 10_000)])
    run_all_reduce(rank, halves(rank.n), [("bfloat16", 333)], "max")


@case
def self_joined_permutes(rank: Rank) -> None:
    operation = rank.permute(rank.ring())
    rank.xla.instantiate(operation)
    # Each run moves what lies in the buffer on by one, in one buffer and in two.
    buffer, other = values(rank.me, "float32", 50_000), np.empty(50_000, np.float32)
    for run in range(10):
        rank.xla.self_joined(operation, [buffer], [buffer], run)
        rank.xla.self_joined(operation, [buffer], [other], run)
        rank.gpu.copy(buffer, other)
    rank.gpu.synchronize()
    check(buffer, values((rank.me - 20) % rank.n, "float32", 50_000))


@case
def self_joined_all_reduces(rank: Rank) -> None:
    run_all_reduce(rank, [list(range(rank.n))], [("float32", 40_000), ("bfloat16", 7)], self_joined=True)
    run_all_reduce(rank, halves(rank.n), [("bfloat16", 9000)], "min", self_joined=True, in_place=True)


def refusal(call: Callable[[], None]) -> str:
    """Returns the error of a call."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("was not refused")


@case
def executable_for_another_topology_is_refused(rank: Rank) -> None:
    ours = rank.permute(rank.ring())
    other = replace(ours, attributes=ours.attributes | {"topology": rank.topology ^ 1})
    buffer = np.zeros(4, np.float32)
    for call in (
        lambda: rank.xla.instantiate(other),
        lambda: rank.xla.start(other, [buffer], [buffer]),
        lambda: rank.xla.self_joined(other, [buffer], [buffer]),
    ):
        assert "compiled for another arrangement of processes, hosts or devices" in refusal(call)


@case
def calls_that_make_no_sense_are_refused(rank: Rank) -> None:
    buffer, flags = np.zeros(4, np.float32), np.zeros(4, bool)
    ring, total = rank.permute(rank.ring()), rank.all_reduce("sum", [list(range(rank.n))])
    for operation, operands, results, why in (
        (_without(ring, "pairs"), [buffer], [buffer], "a call has no pairs"),
        (_without(ring, "op"), [buffer], [buffer], "a call has no op"),
        (_without(total, "reduction"), [buffer], [buffer], "a call has no reduction"),
        (ring, [buffer], [], "1 operands and 0 results"),
        (ring, [buffer], [buffer[:2]], "operand and result 0 of a call do not match"),
        (ring, [buffer[:3]], [buffer[1:]], f"{_full_name(ring)}: operand 0 overlaps result 0"),
        (total, [flags], [flags], f'{_full_name(total)}: no reduction "sum" for this element type'),
        (rank.all_reduce("xor", [list(range(rank.n))]), [buffer], [buffer], 'no reduction "xor" for this element type'),
        (rank.all_reduce("mean", [list(range(rank.n))]), [buffer], [buffer], 'unknown reduction "mean"'),
        (rank.all_reduce("sum", [[rank.n]]), [buffer], [buffer], f"PE {rank.me} is in none of its replica groups"),
    ):
        for call in (rank.xla.start, rank.xla.self_joined):
            error = refusal(lambda: call(operation, operands, results))  # noqa: B023
            assert why in error, error
    assert refusal(lambda: rank.xla.done(ring, [], [buffer])) == (
        f"xla_shmem: {_full_name(ring)}: its done ran without its start"
    )


def _without(operation: Operation, attribute: str) -> Operation:
    attributes = {name: value for name, value in operation.attributes.items() if name != attribute}
    return replace(operation, attributes=attributes)


def _full_name(operation: Operation) -> str:
    return f"jit_step/{operation.name}"


@case
def after_all_that_a_permute_still_works(rank: Rank) -> None:
    run_permute(rank, rank.ring(), [("float32", 5000)])
