"""The plan of a benchmark: operations, sizes, groups, and the quantities that follow from them."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence

from xla_shmem import _core
from xla_shmem.bench import variants
from xla_shmem.errors import BenchError
from xla_shmem.gpu.chosen_gpus import Gpus
from xla_shmem.options.values import OPS
from xla_shmem.quantities import plural

_TABLE = {op["name"]: op for op in _core.collective_ops()}

#: Operations that cut the larger buffer of a PE into a piece for each PE of the group.
_IN_PIECES = tuple(name for name, op in _TABLE.items() if op["shapes"] != "same")

#: Operations whose operand and result have the same shape. Only these can run in place.
SAME_SHAPE_OPS = tuple(name for name, op in _TABLE.items() if op["shapes"] in ("same", "exchanged"))

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

#: Most collectives of one program on a GPU (`Plan.turns_per_call`).
_TURNS_PER_CALL = 20


@dataclasses.dataclass(frozen=True)
class Cell:
    """One row of the table.

    Attributes:
      op: one of `OPS`, as HLO spells it.
      count: elements as nccl-tests counts them: of the whole buffer; for all-gather, reduce-scatter and the
        all-to-alls of one PE's piece. The pieces of a ragged all-to-all are equal too.
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
        return self.count * (self.group if self.op in _IN_PIECES and self.op != "all-gather" else 1)

    @property
    def result_elements(self) -> int:
        """Elements of the result of one PE."""
        return self.count * (self.group if self.op in _IN_PIECES and self.op != "reduce-scatter" else 1)

    @property
    def bytes(self) -> int:
        """Bytes of the larger buffer of one PE: the size that the table shows."""
        return max(self.operand_elements, self.result_elements) * DTYPES[self.dtype][1]

    @property
    def bus_factor(self) -> float:
        """Bus bandwidth divided by algorithm bandwidth, as in nccl-tests' doc/PERFORMANCE.md."""
        rest = (self.group - 1) / self.group
        if self.op in _IN_PIECES:
            return rest
        return 2 * rest if _TABLE[self.op]["reduces"] else 1.0

    @property
    def copies(self) -> tuple[float, float]:
        """Number of copies of `bytes` per PE: with single-copy transfers, and through slots.

        A byte for another PE is copied once (from buffer to buffer) or twice (into a slot and out of it). A PE's own
        piece (all-gather, all-to-alls) is copied once in both cases. Reducing a byte into a buffer counts as one copy,
        although it reads one more byte.
        """
        crossing = self.bus_factor
        stays = 1 / self.group if self.op in _IN_PIECES and self.op != "reduce-scatter" else 0.0
        return crossing + stays, 2 * crossing + stays


@dataclasses.dataclass(frozen=True)
class Plan:
    """The settings of a run; `xla-shmem bench --help` explains most.

    Attributes:
      gpus: the GPUs to measure on; None for the CPU.
      program_ms: milliseconds of a timed program, if `iterations` is not given.
    """

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
    launcher: str = ""
    gpus: Gpus | None = None
    program_ms: float = 200.0

    @property
    def platform(self) -> str:
        """``cpu`` or ``gpu``."""
        return "cpu" if self.gpus is None else "gpu"

    @property
    def shares_gpu(self) -> bool:
        """Whether all processes share one GPU. Then the GPU time-slices them, and times mean little."""
        return self.gpus is not None and self.processes > len(self.gpus.names)

    @property
    def turns_per_call(self) -> int | None:
        """Collectives of one call of a compiled program; None if the number is an argument of the program.

        XLA:GPU asks the device before each turn of a loop whose length it does not know, and waits for the answer.
        """
        if self.gpus is None:
            return None
        return max(2, min(_TURNS_PER_CALL, self.iterations or _TURNS_PER_CALL))

    @property
    def pes(self) -> int:
        """Devices of the job."""
        return self.processes * self.devices_per_process

    @property
    def group_size(self) -> int:
        """PEs of each group; by default all PEs."""
        return self.group or self.pes

    def _validate_launcher(self) -> None:
        try:
            command = shlex.split(self.launcher)
        except ValueError as error:
            raise BenchError(f"--launcher {self.launcher}: {error}.") from None
        if not command or shutil.which(command[0]) is None:
            raise BenchError(f"--launcher {self.launcher}: there is no command {command[0] if command else ''}.")
        if self.gpus is not None:
            raise BenchError("--launcher is for ranks on CPUs: give --platform cpu.")
        if self.bind:
            raise BenchError("--bind is for ranks of this host; give --launcher's command its own option for that.")
        if "mpi" in self.rivals:
            raise BenchError("--vs mpi is for ranks of this host; leave it or --launcher out.")

    def __str__(self) -> str:
        devices = plural(self.devices_per_process, "device" if self.gpus is None else "GPU")
        form = "in place" if self.in_place else "out of place"
        bound = ", bound" if self.bind else ""
        processes, each = (f"{self.processes} processes", " each") if self.processes > 1 else ("one process", "")
        return (
            f"{processes}{bound} {'that share one GPU' if self.shares_gpu else f'with {devices}{each}'}, "
            f"groups of {self.group_size}, "
            f"{self.dtype}, {form}"
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
        if self.launcher:
            self._validate_launcher()
        if self.gpus is not None and self.devices_per_process > 1 and self.pes > len(self.gpus.names):
            raise BenchError(
                f"--devices-per-process {self.devices_per_process} with --num-ranks {self.processes} needs {self.pes}"
                f" GPUs, and CUDA shows {len(self.gpus.names)}."
            )
        for rival in self.rivals:
            if not variants.exists(rival, self.platform):
                raise BenchError(f"--vs {rival}: there is no such variant on {self.platform.upper()}s.")
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

    def obstacles(self) -> dict[str, str]:
        """Returns the rivals that cannot run here, each with the reason."""
        return variants.obstacles(self.rivals, self.gpus, shared=self.shares_gpu)

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
        pieces = self.group_size if op in _IN_PIECES else 1
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
    """Resolves `all`, and keeps every operation once, in the order of `OPS`."""
    return tuple(op for op in OPS if op in names or "all" in names)


def chosen_rivals(lists: Sequence[str], platform: str) -> tuple[str, ...]:
    """Reads lists such as `stock,mpi` and `XLA_SHMEM_SPIN_US=0`, or `none`: transports first, then settings.

    Raises:
      BenchError: a transport that the platform does not have, or a setting that is none of SHMEM's options.
    """
    names = list(dict.fromkeys(name.strip() for text in lists for name in text.split(",")))
    if names == ["none"]:
        return ()
    rivals = variants.rivals(platform)
    settings = [name for name in names if "=" in name]
    for setting in settings:
        variants.check_setting(setting, platform)
    for name in names:
        if name not in (*rivals, *settings):
            raise BenchError(
                f"--vs {','.join(lists)}: '{name}' is neither one of {', '.join(rivals)} (on {platform.upper()}s) nor "
                "XLA_SHMEM_NAME=VALUE; 'none' measures SHMEM alone."
            )
    return (*(rival for rival in rivals if rival in names), *settings)
