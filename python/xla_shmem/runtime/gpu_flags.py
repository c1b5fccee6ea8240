"""Flags of XLA:GPU by which all collectives of an op run in another way, from the tuning table.

The pass chooses some ways for each collective (`gpu_ways.py`). All others are flags, which XLA reads when it starts. So
the table of profile `tuned` chooses them for each op, before that. All processes have equal tables and so equal flags.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from xla_shmem import _core, gpu_ways
from xla_shmem.gpu.jax_plugin import distribution_version, release
from xla_shmem.options import Options
from xla_shmem.options.tuning_table import Table, TunedRow
from xla_shmem.xla_flags import flag_values
from xla_shmem.xla_libraries import known_flags

logger = logging.getLogger(__name__)

#: A way must take less than this part of the time of XLA's choice, in the geometric mean over the table's sizes.
_GAIN = 0.95

#: The first release of NCCL without the faults of windows that are named below.
_NCCL_WITH_WINDOWS = (2, 31, 2)


@dataclasses.dataclass(frozen=True)
class Choice:
    """A way for all collectives of an op.

    Attributes:
      op: HLO's name.
      way: word of ``XLA_SHMEM_BACKENDS``.
      flag: ``--xla_...=value``.
      ratio: its time divided by that of XLA's choice.
      refused: why the flag is not set, "" if it is.
      most: largest result in bytes for which it holds; None for all.
      also: flags that must be set with it on the releases of XLA that know them.
    """

    op: str
    way: str
    flag: str
    ratio: float
    refused: str = ""
    most: int | None = None
    also: tuple[str, ...] = ()

    def sentence(self) -> str:
        """What is done, for the log."""
        gain = f"{self.op}: {self.way} takes {self.ratio:.2f} of the time of XLA's choice"
        if self.refused:
            return f"{gain}; {self.flag} is not set: {self.refused}"
        return f"{gain}, so {' and '.join((self.flag, *self.also))} {'are' if self.also else 'is'} set"


def choose(table: Table, backends: Iterable[str], processes: int, nccl: tuple[int, ...]) -> list[Choice]:
    """Returns the ways that the table says to choose by flags, at most one for each op.

    Args:
      table: measured on GPUs.
      backends: words that may be chosen.
      processes: of the job.
      nccl: NCCL's release; empty if not known.
    """
    rows_of: dict[str, list[TunedRow]] = {}
    for row in table.rows:
        if row.domains == 1 and row.default is not None:
            rows_of.setdefault(row.op, []).append(row)
    found = []
    for op, rows in rows_of.items():
        choices = [choice for way in backends if (choice := _choice(op, way, rows, processes, nccl)) is not None]
        # One that is refused is worth a line only if no other is set.
        choices.sort(key=lambda choice: (bool(choice.refused), choice.ratio))
        found += choices[:1]
    return found


def _choice(op: str, way: str, rows: Sequence[TunedRow], processes: int, nccl: tuple[int, ...]) -> Choice | None:
    flags = _core.way_flags(way, op)
    settable = way in gpu_ways.settable("gpu") and (way, op) in (("one-sided", "all-gather"), ("nccl", "all-reduce"))
    if not flags or settable:
        return None
    measured = sorted((row for row in rows if way in row.ways), key=lambda row: row.bytes)
    most = None
    if way == "nccl-symmetric":  # the flag takes a limit
        slower = [row.bytes for row in measured if _ratio(row, way) >= _GAIN]
        measured = [row for row in measured if row.bytes < min(slower, default=math.inf)]
        most = max((row.bytes for row in measured), default=0) if slower else None
    if not measured:
        return None
    ratio = math.exp(sum(math.log(_ratio(row, way)) for row in measured) / len(measured))
    if ratio >= _GAIN:
        return None
    limited = flags[0] if most is None else f"{flags[0]}:{most}"
    return Choice(op, way, limited, ratio, _why_refused(op, way, processes, nccl), most, tuple(flags[1:]))


def _ratio(row: TunedRow, way: str) -> float:
    assert row.default is not None
    return row.ways[way].median_us / row.default.median_us


def _why_refused(op: str, way: str, processes: int, nccl: tuple[int, ...]) -> str:
    if processes > 1 and way in ("one-sided", "nccl-symmetric"):
        return (
            "between processes windows may differ and hang (openxla/xla issue 45406) or lose data (NVIDIA/nccl issue "
            "2198)"
        )
    if processes > 1 and way == "peer-copies":
        return "XLA copies within a process only"
    if way == "nccl-symmetric" and nccl < _NCCL_WITH_WINDOWS:
        version = ".".join(map(str, nccl)) or "of an unknown release"
        return (
            f"NCCL {version} may run out of addresses for windows (NVIDIA/nccl issue 2331)"
            + (" and hang in groups of two (issue 2241)" if op == "all-gather" else "")
            + f"; {'.'.join(map(str, _NCCL_WITH_WINDOWS))} is newer"
        )
    return ""


def chosen_flags(options: Options, processes: int, environ: Mapping[str, str]) -> list[Choice]:
    """Returns what `set_flags` would set here, and what it refuses; nothing without a table of GPUs."""
    table = options.tuning
    if table is None or table.platform != "gpu":
        return []
    backends = [word for word, _ in _core.ways()] if options.backends == "default" else options.backends.split(",")
    wheel = next(filter(None, (distribution_version(f"nvidia-nccl-cu{cuda}") for cuda in (13, 12))), None)
    choices = choose(table, backends, processes, release(wheel))
    return [_checked(choice, environ) for choice in choices]


def with_flags(choices: Sequence[Choice], table: Table) -> Table:
    """Returns the table for the pass: where a flag chooses a way, that is what XLA chooses."""
    by_op = {choice.op: choice for choice in choices if not choice.refused}

    def changed(row: TunedRow) -> TunedRow:
        choice = by_op.get(row.op)
        if choice is None or choice.way not in row.ways or row.bytes > (choice.most or row.bytes):
            return row
        return dataclasses.replace(row, default=row.ways[choice.way])

    return dataclasses.replace(table, rows=tuple(map(changed, table.rows)))


def set_flags(options: Options, processes: int, environ: MutableMapping[str, str], *, says: bool) -> Options:
    """Sets the flags that the table of profile `tuned` chooses, before XLA starts.

    A flag that the user has set stays, and so does one that this release of XLA does not know, which would end it.

    Args:
      options: in force.
      processes: of the job.
      environ: this process's environment.
      says: whether this process tells the user.

    Returns:
      The options with the table as it holds with these flags.
    """
    table = options.tuning
    if table is None or table.platform != "gpu":
        return options
    choices = chosen_flags(options, processes, environ)
    for choice in choices:
        if says:
            logger.warning("xla_shmem: %s", choice.sentence())
    flags = _joined(flag for choice in choices if not choice.refused for flag in (choice.flag, *choice.also))
    if flags:
        environ["XLA_FLAGS"] = " ".join([environ.get("XLA_FLAGS", ""), *flags]).strip()
    return dataclasses.replace(options, tuning=with_flags(choices, table))


def _checked(choice: Choice, environ: Mapping[str, str]) -> Choice:
    name, *also = (flag.partition("=")[0].removeprefix("--") for flag in (choice.flag, *choice.also))
    if choice.refused:
        return choice
    if environ.get("XLA_FLAGS", "-").lstrip()[:1] not in ("-", ""):
        return dataclasses.replace(choice, refused="XLA_FLAGS is the name of a file")
    if given := [each for each in (name, *also) if each in flag_values(environ)]:
        which = "it" if given[0] == name else f"--{given[0]}, which it needs,"
        return dataclasses.replace(choice, refused=f"XLA_FLAGS has {which} already")
    known = known_flags([name, *also])
    if name not in known:
        return dataclasses.replace(choice, refused="this release of XLA does not know it")
    wanted = tuple(flag for flag, each in zip(choice.also, also, strict=True) if each in known)
    return dataclasses.replace(choice, also=wanted)


def _joined(flags: Iterable[str]) -> list[str]:
    """One flag for each name: those of a list are joined."""
    values: dict[str, list[str]] = {}
    for flag in flags:
        name, _, value = flag.partition("=")
        values.setdefault(name, []).append(value)
    return [f"{name}={','.join(value)}" for name, value in values.items()]
