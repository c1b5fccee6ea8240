"""What was measured: times per variant and line, what follows from them, and the report as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xla_shmem.bench.plan import Cell


@dataclasses.dataclass
class Times:
    """One variant of one line.

    Attributes:
      us: µs per collective of each timed program, the slowest rank's; empty if the variant did not run.
      turns: collectives per timed program.
      wrong: wrong elements over all ranks, None if nothing was checked.
      reason: why the variant did not run; empty if it did.
    """

    us: list[float] = dataclasses.field(default_factory=list)
    turns: int = 0
    wrong: int | None = None
    reason: str = ""

    def quantile(self, q: float) -> float:
        """µs per collective: the `q`-quantile of the timed programs, interpolated linearly."""
        return float(np.quantile(self.us, q))

    @property
    def median(self) -> float:
        """Median µs per collective."""
        return self.quantile(0.5)


@dataclasses.dataclass
class Row:
    """One line: a cell with the times of its variants.

    Attributes:
      cell: what was run.
      times: by variant.
      memcpy_gb_per_s: GB/s of a PE's `memcpy` of `cell.bytes` while all PEs copy, their mean, one value per round;
        empty for sizes at which a call's own cost is what one would measure.
      empty_call_us: for those sizes, µs that XLA takes for an FFI call whose handler does nothing, one value per round.
      records: by variant that ran, its collective as the pass describes it (`_core.CollectiveRecord`).
    """

    cell: Cell
    times: dict[str, Times]
    memcpy_gb_per_s: list[float] = dataclasses.field(default_factory=list)
    empty_call_us: list[float] = dataclasses.field(default_factory=list)
    records: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def algorithm_bandwidth(self, variant: str) -> float:
        """GB/s: bytes of the line over the median time."""
        return self.cell.bytes / self.times[variant].median / 1e3

    def bus_bandwidth(self, variant: str) -> float:
        """GB/s that a PE's link would have to carry, whatever the operation and the number of PEs."""
        return self.algorithm_bandwidth(variant) * self.cell.bus_factor

    def speed_up(self, rival: str) -> float | None:
        """Median of the rival over median of SHMEM, None where one of them did not run."""
        if not self.times["shmem"].us or not self.times[rival].us:
            return None
        return self.times[rival].median / self.times["shmem"].median

    def memcpy_limits_us(self) -> tuple[float, float] | None:
        """µs that the copies alone take: with single-copy transfers, and through slots (`Cell.copies`)."""
        if not self.memcpy_gb_per_s:
            return None
        one_copy = self.cell.bytes / statistics.median(self.memcpy_gb_per_s) / 1e3
        single, slots = self.cell.copies
        return single * one_copy, slots * one_copy

    def as_json(self) -> dict[str, Any]:
        """The line with everything that follows from it, for the report."""
        limits = self.memcpy_limits_us()
        memcpy = limits and {
            "gb_per_s": statistics.median(self.memcpy_gb_per_s),
            "single_copy_us": limits[0],
            "through_slots_us": limits[1],
        }
        return {
            "op": self.cell.op,
            "bytes": self.cell.bytes,
            "count": self.cell.count,
            "dtype": self.cell.dtype,
            "reduction": self.cell.reduction or None,
            "group": self.cell.group,
            "in_place": self.cell.in_place,
            "memcpy_limit": memcpy,
            "empty_call_us": statistics.median(self.empty_call_us) if self.empty_call_us else None,
            "variants": {name: self._variant_json(name) for name in self.times},
        }

    def _variant_json(self, name: str) -> dict[str, Any]:
        times = self.times[name]
        if not times.us:
            return {"reason": times.reason}
        return {
            "p25_us": times.quantile(0.25),
            "p50_us": times.median,
            "p75_us": times.quantile(0.75),
            "p99_us": times.quantile(0.99),
            "algbw_gb_per_s": self.algorithm_bandwidth(name),
            "busbw_gb_per_s": self.bus_bandwidth(name),
            "wrong": times.wrong,
            "over_shmem": None if name == "shmem" else self.speed_up(name),
            "collectives_per_program": times.turns,
            "us": [round(value, 3) for value in times.us],
        }


def total_wrong(rows: Sequence[Row]) -> int:
    """Wrong elements of all lines and variants."""
    return sum(times.wrong or 0 for row in rows for times in row.times.values())


def report(header: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the report: the header's entries and all rows."""
    return {**header, "rows": [row.as_json() for row in rows]}


def save_json(path: Path, found: dict[str, Any]) -> None:
    """Writes a report, and makes its folder if that is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
