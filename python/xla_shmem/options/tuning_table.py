"""The tuning table: its content, and how its file is read, checked and written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_shmem.errors import UserError
from xla_shmem.options import fingerprint

if TYPE_CHECKING:
    from xla_shmem import _core

FORMAT = "xla-shmem tuning table"

#: Version of the file format. Increased when an earlier reader would misunderstand the file.
VERSION = 3

#: Versions that can be read. In version 1 all groups lie in one NVLink domain; before version 3 there are two backends.
_READABLE = (1, 2, VERSION)

_AGAIN = "run `xla-shmem tune` again"

#: Probability that the median lies below its interval, and that it lies above.
_OUTSIDE = 0.025

#: Smallest time, µs. The time of a program with its warm-up alone is subtracted, so noise can make a result negative.
_LEAST_US = 0.01


class TuningError(UserError, ValueError):
    """A table cannot be used; the message has the reason and the way out, and follows the file's name and a colon."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """Times of one backend, µs per collective: the median over its timed programs, with a confidence interval.

    The interval lies between two order statistics, so it assumes no distribution: gloo's times have two peaks far
    apart on a busy machine (H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition, 7.1).
    """

    median_us: float
    low_us: float
    high_us: float
    programs: int

    @classmethod
    def of(cls, times_us: Sequence[float]) -> Measured:
        """Returns median and interval of the times of at least one program, in µs per collective."""
        ordered = [round(max(us, _LEAST_US), 3) for us in sorted(times_us)]
        outer = _outer_times(len(ordered))
        return cls(
            round(max(statistics.median(times_us), _LEAST_US), 3), ordered[outer], ordered[-1 - outer], len(ordered)
        )


def _outer_times(count: int) -> int:
    """Returns how many of `count` sorted times lie outside the 95 % interval of the median, on either side."""
    chance, outer = 0.5**count, 0  # that all times are above the median
    while chance <= _OUTSIDE:
        outer += 1
        chance += math.comb(count, outer) * 0.5**count
    return max(outer - 1, 0)


@dataclasses.dataclass(frozen=True)
class TunedRow:
    """Times of one collective on both backends.

    Where groups span several NVLink domains, SHMEM's times are those of the divided collective.

    Attributes:
      op: HLO's name, such as ``all-reduce``.
      dtype: HLO's name.
      group: devices of a group; of a permute, the devices that its pairs connect.
      bytes: of the result.
      nvshmem: times on SHMEM.
      default: times on XLA's default backend, None if that does not run the collective.
      domains: NVLink domains (on CPU: hosts) that a group spans; of a permute, those of all its devices.
      ways: times in other ways, by their words in ``XLA_SHMEM_BACKENDS``.
    """

    op: str
    dtype: str
    group: int
    bytes: int
    nvshmem: Measured
    default: Measured | None
    domains: int = 1
    ways: Mapping[str, Measured] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Table:
    """Measurements of one machine.

    Attributes:
      platform: ``cpu`` or ``gpu``: where the times were measured.
      fingerprint: facts that must be the same wherever the times are used (`fingerprint.py`).
      measured: date, load and other facts for readers; no decision depends on them.
      rows: in the order of measuring.
    """

    platform: str
    fingerprint: Mapping[str, str]
    measured: Mapping[str, Any]
    rows: tuple[TunedRow, ...]

    def digest(self) -> str:
        """Returns a hash of platform and rows; equal digests mean equal decisions."""
        decisive = json.dumps([self.platform, [dataclasses.astuple(row) for row in self.rows]], sort_keys=True)
        return hashlib.sha256(decisive.encode()).hexdigest()[:16]

    def core(self, platform: str) -> _core.TuningTable:
        """Returns the rows for the compiler pass; none if they are of another platform.

        Raises:
          TuningError: an op or a dtype is unknown, or a row occurs twice.
        """
        from xla_shmem import _core

        rows = self.rows if platform == self.platform else ()
        try:
            return _core.TuningTable([_core_row(row) for row in rows])
        except ValueError as error:
            raise TuningError(f"is damaged ({error}); {_AGAIN}.") from None


_Time = tuple[float, float, float]


def _core_row(row: TunedRow) -> tuple[str, str, int, int, _Time, _Time | None, int, dict[str, _Time]]:
    default = None if row.default is None else _core_time(row.default)
    ways = {way: _core_time(times) for way, times in row.ways.items()}
    return row.op, row.dtype, row.group, row.bytes, _core_time(row.nvshmem), default, row.domains, ways


def _core_time(times: Measured) -> _Time:
    return times.median_us, times.low_us, times.high_us


def default_path(environ: Mapping[str, str]) -> Path:
    """Returns the path of the table if ``XLA_SHMEM_TUNING`` gives none."""
    base = environ.get("XDG_CONFIG_HOME", "")
    # The XDG Base Directory Specification says that relative paths are to be ignored.
    folder = Path(base) if base.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".config"
    return folder / "xla-shmem" / "tuning.json"


def as_json(table: Table, *, complete: bool) -> str:
    """Returns the text of the file.

    Args:
      table: what it holds.
      complete: whether all was measured that was asked for; `load` refuses a table that is not complete.
    """
    document = {"format": FORMAT, "version": VERSION, "complete": complete, **dataclasses.asdict(table)}
    return json.dumps(document, indent=1) + "\n"


def save(path: Path, table: Table, *, complete: bool) -> None:
    """Writes the file at once, so that no other process reads half of it.

    Args:
      path: of the file; its folder is created if missing.
      table: what to write.
      complete: as for `as_json`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(as_json(table, complete=complete))
    unfinished.replace(path)


def load(path: Path) -> Table:
    """Reads and checks a file.

    Raises:
      TuningError: it is missing, damaged, of another version, or not complete.
    """
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        raise TuningError("there is no such file; `xla-shmem tune` writes one.") from None
    except OSError as error:
        raise TuningError(f"cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise TuningError(f"is not a tuning table ({error}); {_AGAIN}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise TuningError(f'is not a tuning table (no "format": "{FORMAT}"); {_AGAIN}.')
    if document.get("version") not in _READABLE:
        raise TuningError(f"has version {document.get('version')!r} and not {VERSION}; {_AGAIN}.")
    if document.get("complete") is not True:
        raise TuningError(f"is incomplete, because `xla-shmem tune` was stopped; {_AGAIN}.")
    try:
        table = _read_table(document)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise TuningError(f"is damaged ({what}); {_AGAIN}.") from None
    table.core(table.platform)
    return table


def _read_table(document: Mapping[str, Any]) -> Table:
    facts = _typed(document["fingerprint"], dict, "fingerprint")
    rows = [_read_row(_typed(row, dict, "a row")) for row in _typed(document["rows"], list, "rows")]
    if not rows:
        raise ValueError("no rows")
    if (platform := document["platform"]) not in fingerprint.SETTINGS:
        raise ValueError(f"platform is {platform!r:.40}")
    return Table(
        platform=platform,
        fingerprint={str(name): _typed(value, str, str(name)) for name, value in facts.items()},
        measured=_typed(document["measured"], dict, "measured"),
        rows=tuple(rows),
    )


def _read_row(row: Mapping[str, Any]) -> TunedRow:
    default = row["default"]
    return TunedRow(
        op=_typed(row["op"], str, "op"),
        dtype=_typed(row["dtype"], str, "dtype"),
        group=_count(row["group"], "group"),
        bytes=_count(row["bytes"], "bytes"),
        nvshmem=_read_times(_typed(row["nvshmem"], dict, "nvshmem")),
        default=None if default is None else _read_times(_typed(default, dict, "default")),
        domains=_count(row.get("domains", 1), "domains"),
        ways={way: _read_times(times) for way, times in _typed(row.get("ways", {}), dict, "ways").items()},
    )


def _read_times(times: Mapping[str, Any]) -> Measured:
    median, low, high = (float(times[name]) for name in ("median_us", "low_us", "high_us"))
    if not (math.isfinite(high) and 0 < low <= median <= high):
        raise ValueError(f"a median of {median} µs between {low} and {high}")
    return Measured(median, low, high, _count(times["programs"], "programs"))


def _count(value: Any, name: str) -> int:
    count: int = _typed(value, int, name)
    if not 1 <= count < 2**63:
        raise ValueError(f"{name} is {count}")
    return count


def _typed(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r:.40}")
    return value
