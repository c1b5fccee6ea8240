"""Transfers of the GPU path without XLA, compared with NumPy; reports the error of each case, "" for none.

Usage: worker_transfers.py PROCESS PROCESSES GPUS. Options come from the environment. Slots hold some 20 KiB, so that a
few hundred KiB go round the rings.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence

import numpy as np
from gpu_check.cuda import Cuda
from gpu_check.kernels import TYPES, difference, expected, reductions
from job_process import PROCESS, PROCESSES, STORE, job_topology, leave, report, start_job
from ml_dtypes import finfo

from xla_shmem import _core
from xla_shmem.options import resolve

CASES: dict[str, Callable[[Pe], None]] = {}

Pairs = Sequence[tuple[int, int]]


def case(function: Callable[[Pe], None]) -> Callable[[Pe], None]:
    """Adds a function to the cases, which every process runs in this order."""
    CASES[function.__name__] = function
    return function


class Pe:
    """This process.

    Attributes:
      me, n: its number and that of all.
      switch: whether the NVLink switch reduces what it can.
      in_switch: its reductions so far.
    """

    def __init__(self, ordinal: int) -> None:
        self.me, self.n = PROCESS, PROCESSES
        has_multicast = int(sys.argv[3]) >= PROCESSES and os.environ["GPU_EMULATOR_NVLS"] == "1"
        has_multicast &= int(os.environ["GPU_EMULATOR_COMPUTE_CAPABILITY"]) >= 90
        self.switch = resolve().gpu_reduce == "multimem" and has_multicast
        self.in_switch = 0
        self.cuda = Cuda(ordinal)
        self.stream = self.cuda.stream()
        self._operations = 0

    def ring(self) -> Pairs:
        """Each PE sends to the next one."""
        return [(pe, (pe + 1) % self.n) for pe in range(self.n)]

    def groups(self) -> list[list[int]]:
        """All PEs; then groups of two in crossed order, a last odd PE alone."""
        half = self.n // 2
        pairs = [[low + half, low] for low in range(half)] + [[self.n - 1]] * (self.n % 2)
        return [list(range(self.n)), next(pair for pair in pairs if self.me in pair)]

    def buffers(self, like: Sequence[np.ndarray]) -> list[int]:
        """Memory of the GPU for arrays of these sizes."""
        return [self.cuda.allocate(max(array.nbytes, 16)) for array in like]

    def permute(
        self, pairs: Pairs, operands: Sequence[int], results: Sequence[int], sizes: Sequence[int], whole: bool = False
    ) -> int:
        """Enqueues a permute's start, or all of it; returns its operation."""
        self._operations += 1
        source = next((source for source, target in pairs if target == self.me), -1)
        target = next((target for source, target in pairs if source == self.me), -1)
        _core.gpu_permute(self._operations, source, target, operands, results, sizes, self.stream, whole)
        return self._operations

    def all_reduce(
        self, kind: str, dtype: str, group: Sequence[int], operand: int, result: int, size: int, whole: bool = False
    ) -> int:
        """Enqueues an all-reduce's start, or all of it; returns its operation."""
        self._operations += 1
        _core.gpu_all_reduce(
            self._operations, kind, dtype, list(group), [operand], [result], [size], self.stream, whole
        )
        return self._operations

    def done(self, operation: int) -> None:
        _core.gpu_done(operation, self.stream)

    def read(self, address: int, like: np.ndarray) -> np.ndarray:
        """Waits for the stream and reads an array."""
        self.cuda.synchronize(self.stream)
        return self.cuda.download(address, like.size, like.dtype)


def values(pe: int, dtype: str, elements: int, salt: int = 0) -> np.ndarray:
    """The values of a PE, which differ by PE."""
    numbers = np.random.default_rng([pe, salt, elements]).standard_normal(elements) * 8
    kind = np.dtype(TYPES[dtype])
    return (np.abs(numbers) if kind.kind == "u" else numbers).astype(kind)


def check_permute(pe: Pe, pairs: Pairs, shapes: Sequence[tuple[str, int]], rounds: int = 3) -> None:
    """The stream writes each operand right before the start and overwrites it right behind the done."""

    def of(source: int, salt: int) -> list[np.ndarray]:
        return [values(source, dtype, elements, salt) for dtype, elements in shapes]

    sizes = [array.nbytes for array in of(0, 0)]
    originals = [[pe.cuda.upload(array) for array in of(pe.me, salt)] for salt in range(rounds)]
    operands, results = pe.buffers(of(0, 0)), [pe.buffers(of(0, 0)) for _ in range(rounds)]
    for salt in range(rounds):
        for operand, original, size in zip(operands, originals[salt], sizes, strict=True):
            pe.cuda.copy(operand, original, size, pe.stream)
        pe.done(pe.permute(pairs, operands, results[salt], sizes))
        for operand, size in zip(operands, sizes, strict=True):
            pe.cuda.fill(operand, 0xEE, size, pe.stream)
    source = next((source for source, target in pairs if target == pe.me), None)
    for salt in range(rounds):
        for result, own in zip(results[salt], range(len(shapes)), strict=True):
            want = np.zeros_like(of(0, 0)[own]) if source is None else of(source, salt)[own]
            assert pe.read(result, want).tobytes() == want.tobytes(), f"round {salt}, operand {own}"


def reduces_in_switch(pe: Pe, kind: str, dtype: str, group: Sequence[int]) -> bool:
    """Whether the switch does it: all PEs, and a type and kind that the PTX ISA has."""
    if not pe.switch or len(group) != pe.n:
        return False
    if dtype[0] in "su":
        return kind in ("and", "or", "xor") or (kind != "prod" and dtype[1:] in ("32", "64"))
    return kind == "sum" and dtype in ("f16", "bf16", "f32", "f64", "c64", "c128")


def check_reduced(pe: Pe, kind: str, dtype: str, group: Sequence[int], inputs: np.ndarray, got: np.ndarray) -> None:
    """Compares a reduction: with equal bits; sums of the switch in any order, but equal on all PEs."""
    in_switch = reduces_in_switch(pe, kind, dtype, group)
    pe.in_switch += in_switch
    if not in_switch or inputs.dtype.kind in "iu":
        assert not (wrong := difference(got, expected(kind, inputs))), wrong
        return
    if inputs.dtype.kind == "c":
        part = np.dtype(f"f{inputs.dtype.itemsize // 2}")
        inputs, got = inputs.view(part), got.view(part)
    wide = inputs.astype(np.float64)
    error = np.abs(got.astype(np.float64) - wide.sum(0))
    bound = len(inputs) * float(finfo(inputs.dtype).eps) * np.abs(wide).sum(0) + float(finfo(inputs.dtype).tiny)
    assert (error <= bound).all(), f"off by {error.max()}"
    STORE.set(f"sum.{pe.in_switch}.{pe.me}", hashlib.sha256(got.tobytes()).hexdigest())
    sums = {STORE.wait(f"sum.{pe.in_switch}.{member}", 30) for member in range(pe.n)}
    assert len(sums) == 1, f"a sum of {dtype} differs between PEs"


def check_all_reduce(
    pe: Pe, kind: str, dtype: str, elements: int, group: Sequence[int], in_place: bool = False, whole: bool = False
) -> None:
    inputs = np.stack([values(member, dtype, elements) for member in group])
    own = inputs[list(group).index(pe.me)]
    operand = pe.cuda.upload(own)
    result = operand if in_place else pe.cuda.upload(np.zeros_like(own))
    operation = pe.all_reduce(kind, dtype, group, operand, result, own.nbytes, whole)
    if not whole:
        pe.done(operation)
    check_reduced(pe, kind, dtype, group, inputs, pe.read(result, own))


@case
def permutes_round_a_ring(pe: Pe) -> None:
    check_permute(pe, pe.ring(), [("f32", 1000)], rounds=20)
    check_permute(pe, pe.ring(), [("f32", 200_001)])  # more than all slots


@case
def permutes_down_an_open_chain_to_oneself_and_nowhere(pe: Pe) -> None:
    check_permute(pe, pe.ring()[:-1], [("s32", 5000)])
    check_permute(pe, [(0, 0)], [("bf16", 777)])


@case
def permutes_of_operands_of_several_types(pe: Pe) -> None:
    check_permute(pe, [(b, a) for a, b in pe.ring()], [("f32", 3), ("bf16", 70_000), ("s8", 0), ("u8", 9)])


@case
def permutes_in_place_and_as_one_call(pe: Pe) -> None:
    own = values(pe.me, "f32", 50_000)
    buffer, other = pe.cuda.upload(own), pe.cuda.upload(np.zeros_like(own))
    # Each run moves what lies in the buffer on by one.
    for _ in range(5):
        pe.permute(pe.ring(), [buffer], [buffer], [own.nbytes], whole=True)
        pe.permute(pe.ring(), [buffer], [other], [own.nbytes], whole=True)
        pe.done(pe.permute(pe.ring(), [other], [other], [own.nbytes]))
        pe.cuda.copy(buffer, other, own.nbytes, pe.stream)
    want = values((pe.me - 15) % pe.n, "f32", 50_000)
    assert pe.read(buffer, want).tobytes() == want.tobytes()


@case
def compute_between_start_and_done_ends_before_the_peers_start(pe: Pe) -> None:
    own, more = values(pe.me, "f32", 60_000), values(pe.me, "f64", 999, 1)
    operand, result = pe.cuda.upload(own), pe.cuda.upload(np.zeros_like(own))
    source, target = pe.cuda.upload(more), pe.cuda.upload(np.zeros_like(more))
    if pe.me != 0:
        STORE.wait("overlap", 30)
    operation = pe.permute(pe.ring(), [operand], [result], [own.nbytes])
    pe.cuda.copy(target, source, more.nbytes, pe.stream)
    if pe.me == 0:
        assert pe.read(target, more).tobytes() == more.tobytes()
        STORE.set("overlap", "the compute of PE 0 has ended")
    pe.done(operation)
    want = values((pe.me - 1) % pe.n, "f32", 60_000)
    assert pe.read(result, want).tobytes() == want.tobytes()


@case
def transfers_in_flight_are_joined_in_another_order(pe: Pe) -> None:
    own, back = values(pe.me, "f32", 30_000), [(b, a) for a, b in pe.ring()]
    operand, everybody = pe.cuda.upload(own), pe.groups()[0]
    sent, total, returned = pe.buffers([own] * 3)
    forward = pe.permute(pe.ring(), [operand], [sent], [own.nbytes])
    summed = pe.all_reduce("sum", "f32", everybody, operand, total, own.nbytes)
    backward = pe.permute(back, [operand], [returned], [own.nbytes])
    for operation in (backward, forward, summed):
        pe.done(operation)
    for result, step in ((sent, -1), (returned, 1)):
        want = values((pe.me + step) % pe.n, "f32", 30_000)
        assert pe.read(result, want).tobytes() == want.tobytes()
    inputs = np.stack([values(member, "f32", 30_000) for member in everybody])
    check_reduced(pe, "sum", "f32", everybody, inputs, pe.read(total, own))


@case
def all_reduces_of_all_types(pe: Pe) -> None:
    for dtype, kind in reductions():
        for group in pe.groups():
            check_all_reduce(pe, kind, dtype, 77, group)


@case
def all_reduces_of_several_sizes_in_place_and_as_one_call(pe: Pe) -> None:
    for group in pe.groups():
        for elements in (1, 1003, 100_000):
            check_all_reduce(pe, "sum", "f32", elements, group)
        check_all_reduce(pe, "min", "bf16", 5001, list(reversed(group)), in_place=True)
        check_all_reduce(pe, "sum", "f32", 40_000, group, whole=True)
        check_all_reduce(pe, "max", "bf16", 9000, group, in_place=True, whole=True)


@case
def small_messages_follow_each_other(pe: Pe) -> None:
    """In packets up to some hundred bytes or 2 KiB, by the number of PEs."""
    sizes = (4, 1, 260, 9, 600, 1999, 1000, 17, 2048, 2060, 3, 1030, 4096, 700, 8)
    rounds = []
    for salt, size in enumerate(sizes * 2):
        operand = pe.cuda.upload(values(pe.me, "u8", size, salt))
        moved, total = pe.buffers([np.zeros(size, np.uint8)] * 2)
        # PE 0 only sends, and may be ahead of those that it sends to.
        pairs, group = pe.ring()[: pe.n - salt % 2], pe.groups()[salt % 2]
        pe.permute(pairs, [operand], [moved], [size], whole=True)
        pe.all_reduce("sum", "u8", group, operand, total, size, whole=True)
        rounds.append((salt, size, pairs, group, moved, total))
    for salt, size, pairs, group, moved, total in rounds:
        source = next((source for source, target in pairs if target == pe.me), None)
        want = np.zeros(size, np.uint8) if source is None else values(source, "u8", size, salt)
        assert pe.read(moved, want).tobytes() == want.tobytes(), f"round {salt}: permute of {size} bytes"
        inputs = np.stack([values(member, "u8", size, salt) for member in group])
        check_reduced(pe, "sum", "u8", group, inputs, pe.read(total, want))


def outcomes(pe: Pe) -> dict[str, str]:
    """Runs the cases up to the first that fails: its peers still wait in it."""
    found: dict[str, str] = {}
    for name, function in CASES.items():
        try:
            function(pe)
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
            break
    return dict.fromkeys(CASES, "not run") | found


def main() -> None:
    # Processes may have to share the GPUs.
    ordinal = PROCESS % int(sys.argv[3])
    topology = job_topology(start_job([ordinal], deadline=60.0))
    assert topology.transport.available, topology.transport.reason
    pe = Pe(ordinal)
    report(outcomes(pe) | {"in_switch": str(pe.in_switch)})
    leave()


main()
