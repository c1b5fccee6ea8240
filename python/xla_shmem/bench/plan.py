"""The plan of a benchmark: operations, sizes, groups, and the quantities that follow from them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from xla_shmem.errors import UserError
from xla_shmem.options.values import OPS
from xla_shmem.quantities import plural

#: Operations that are measured. XLA:CPU has no ragged all-to-all.
MEASURED_OPS = tuple(op for op in OPS if op != "ragged-all-to-all")

#: Operations whose operand and result have the same shape. Only these can run in place.
SAME_SHAPE_OPS = ("collective-permute", "all-reduce", "all-to-all", "collective-broadcast")

#: Reductions of JAX's collectives, by operation.
REDUCTIONS = {"all-reduce": ("sum", "min", "max"), "reduce-scatter": ("sum",)}

#: Element types by their names in HLO: name in NumPy, bytes.
DTYPES = {
    "f32": ("float32", 4),
    "f64": ("float64", 8),
    "f16": ("float16", 2),
    "bf16": ("bfloat16", 2),
    "s8": ("int8", 1),
    "s16": ("int16", 2),
    "s32": ("int32", 4),
    "s64": ("int64", 8),
    "u8": ("uint8", 1),
    "u16": ("uint16", 2),
    "u32": ("uint32", 4),
    "u64": ("uint64", 8),
}

#: Variants to compare with SHMEM: XLA's default backend (gloo), and JAX's MPI collectives.
RIVALS = ("stock", "mpi")

VARIANTS = ("shmem", *RIVALS)

#: Whether the pass must move a variant's collectives to SHMEM. For other variants the rules of their job decide.
CARRIED = {"shmem": True, "stock": False, "mpi": False}


class BenchError(UserError, ValueError):
    """The benchmark cannot run with these settings. The message says why and what to change."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One row of the table.

    Attributes:
      op: one of `MEASURED_OPS`, as HLO spells it.
      count: elements as nccl-tests counts them: of the whole buffer; for all-gather, reduce-scatter and all-to-all of
        one PE's piece.
      dtype: key of `DTYPES`.
      reduction: `sum`, `min` or `max`; empty for operations that do not reduce.
      group: PEs of each group.
      in_place: whether the result is the next operand. Otherwise it has its own buffer.
    """

    op: str
    count: int
    dtype: str
    reduction: str
    group: int
    in_place: bool

    @property
    def operand_elements(self) -> int:
        """Elements of the operand of one PE."""
        return self.count * (self.group if self.op in ("reduce-scatter", "all-to-all") else 1)

    @property
    def result_elements(self) -> int:
        """Elements of the result of one PE."""
        return self.count * (self.group if self.op in ("all-gather", "all-to-all") else 1)

    @property
    def bytes(self) -> int:
        """Bytes of the larger buffer of one PE: the size that the table shows."""
        return max(self.operand_elements, self.result_elements) * DTYPES[self.dtype][1]

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth divided by algorithm bandwidth, as in nccl-tests' doc/PERFORMANCE.md."""
        if self.op in ("collective-permute", "collective-broadcast"):
            return 1.0
        rest = (self.group - 1) / self.group
        return 2 * rest if self.op == "all-reduce" else rest

    @property
    def copies(self) -> tuple[float, float]:
        """Number of copies of `bytes` per PE: with single-copy transfers, and through slots.

        A byte for another PE is copied once (from buffer to buffer) or twice (into a slot and out of it). A PE's own
        piece (all-gather, all-to-all) is copied once in both cases. Reducing a byte into a buffer counts as one copy,
        although it reads one more byte.
        """
        crossing = self.bus_factor
        stays = 1 / self.group if self.op in ("all-gather", "all-to-all") else 0.0
        return crossing + stays, 2 * crossing + stays


@dataclasses.dataclass(frozen=True)
class Plan:
    """The settings of a run; `xla-shmem bench --help` explains each one."""

    processes: int = 2
    devices_per_process: int = 1
    min_bytes: int = 8
    max_bytes: int = 128 << 20
    factor: int = 2
    ops: tuple[str, ...] = ("all-reduce",)
    dtype: str = "f32"
    reduction: str = "sum"
    warmup: int = 5
    iterations: int | None = None
    rounds: int = 9
    check: bool = True
    rivals: tuple[str, ...] = ("stock",)
    group: int | None = None
    in_place: bool = False
    misalign: int = 0
    bind: bool = False
    mpirun: str = "mpirun"

    @property
    def pes(self) -> int:
        """Devices of the job."""
        return self.processes * self.devices_per_process

    @property
    def group_size(self) -> int:
        """PEs of each group; by default all PEs."""
        return self.group or self.pes

    def __str__(self) -> str:
        devices = plural(self.devices_per_process, "device")
        form = "in place" if self.in_place else "out of place"
        bound = ", bound" if self.bind else ""
        return (
            f"{self.processes} processes{bound} with {devices} each, groups of {self.group_size}, {self.dtype}, {form}"
        )

    def validate(self) -> None:
        """Checks that the settings fit each other.

        Raises:
          BenchError: two settings do not fit. The message says which and what to change.
        """
        width = DTYPES[self.dtype][1]
        if self.pes < 2:
            raise BenchError("one PE has no other to send to; give at least --num-ranks 2 or --devices-per-process 2.")
        if self.group_size < 2 or self.pes % self.group_size:
            raise BenchError(f"--groups {self.group} does not divide {self.pes} PEs into groups of at least 2.")
        if self.min_bytes > self.max_bytes:
            raise BenchError(f"--min-bytes {self.min_bytes} is more than --max-bytes {self.max_bytes}.")
        if self.misalign % width:
            raise BenchError(f"--misalign {self.misalign} is not a multiple of the {width} bytes of {self.dtype}.")
        if "mpi" in self.rivals and self.devices_per_process > 1:
            raise BenchError("JAX's MPI collectives need one device per process: leave --devices-per-process at 1.")
        if self.bind and self.processes > (processors := len(os.sched_getaffinity(0))):
            raise BenchError(
                f"--bind: {self.processes} ranks cannot have processors of their own: there are {processors}."
            )
        for op in self.ops:
            if self.reduction not in REDUCTIONS.get(op, (self.reduction,)):
                raise BenchError(f"JAX has no {op} with --reduction {self.reduction}, only {REDUCTIONS[op][0]}.")
            if self.in_place and op not in SAME_SHAPE_OPS:
                raise BenchError(f"{op} cannot run in place: its result has another shape than its operand.")
        if not list(self.cells()):
            raise BenchError(
                f"no size from --min-bytes {self.min_bytes} to --max-bytes {self.max_bytes} holds an element of "
                f"{self.dtype} for each of {self.group_size} PEs."
            )

    def cells(self) -> Iterator[Cell]:
        """Yields the rows of the table. Rounds sizes down to whole elements; leaves out empty and repeated ones."""
        for op in self.ops:
            seen = set()
            for size in sizes(self.min_bytes, self.max_bytes, self.factor):
                cell = self._cell(op, size)
                if cell is not None and cell not in seen:
                    seen.add(cell)
                    yield cell

    def _cell(self, op: str, size: int) -> Cell | None:
        width = DTYPES[self.dtype][1]
        pieces = self.group_size if op in ("all-gather", "reduce-scatter", "all-to-all") else 1
        count = size // (width * pieces)
        if count == 0:
            return None
        reduction = self.reduction if op in REDUCTIONS else ""
        return Cell(op, count + self.misalign // width, self.dtype, reduction, self.group_size, self.in_place)


def sizes(first: int, last: int, factor: int) -> Iterator[int]:
    """Yields `first`, `first·factor`, … up to `last`."""
    while first <= last:
        yield first
        first *= factor


def chosen_ops(names: Sequence[str]) -> tuple[str, ...]:
    """Resolves `all`, and keeps every operation once, in the order of `MEASURED_OPS`."""
    return tuple(op for op in MEASURED_OPS if op in names or "all" in names)


def chosen_rivals(text: str) -> tuple[str, ...]:
    """Reads `stock,mpi`, or `none`.

    Raises:
      BenchError: a name that is neither.
    """
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in RIVALS:
            raise BenchError(f"--vs {text}: '{name}' is not one of {', '.join(RIVALS)}; 'none' measures SHMEM alone.")
    return tuple(rival for rival in RIVALS if rival in names)
