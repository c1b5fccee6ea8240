"""The measurements of a benchmark: times of each row and variant, derived quantities, and the report as JSON."""

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
    """The times of one variant in one row.

    Attributes:
      us: µs per collective of each timed program, at its slowest rank; empty if the variant did not run.
      turns: collectives per timed program.
      wrong: number of wrong elements on all ranks; None if the results were not checked.
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
    """One row: a cell and the times of its variants.

    Attributes:
      cell: the collective.
      times: times of each variant.
      memcpy_gb_per_s: GB/s of a `memcpy` of `cell.bytes` while all PEs copy: mean over the PEs, one value per round.
        Empty for small sizes, where the overhead of the call dominates.
      empty_call_us: for small sizes, µs of an FFI call whose handler does nothing, one value per round.
      records: for each variant that ran, its collective as the pass describes it (`_core.CollectiveRecord`).
    """

    cell: Cell
    times: dict[str, Times]
    memcpy_gb_per_s: list[float] = dataclasses.field(default_factory=list)
    empty_call_us: list[float] = dataclasses.field(default_factory=list)
    records: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def algorithm_bandwidth(self, variant: str) -> float:
        """Returns GB/s: bytes of the row divided by the median time."""
        return self.cell.bytes / self.times[variant].median / 1e3

    def bus_bandwidth(self, variant: str) -> float:
        """Returns the GB/s on the link of a PE; comparable between operations and numbers of PEs."""
        return self.algorithm_bandwidth(variant) * self.cell.bus_factor

    def speed_up(self, rival: str) -> float | None:
        """Returns the median of the rival divided by the median of SHMEM; None if one of them did not run."""
        if not self.times["shmem"].us or not self.times[rival].us:
            return None
        return self.times[rival].median / self.times["shmem"].median

    def memcpy_limits_us(self) -> tuple[float, float] | None:
        """Returns µs for the copies alone: with single-copy transfers, and through slots (`Cell.copies`)."""
        if not self.memcpy_gb_per_s:
            return None
        one_copy = self.cell.bytes / statistics.median(self.memcpy_gb_per_s) / 1e3
        single, slots = self.cell.copies
        return single * one_copy, slots * one_copy

    def as_json(self) -> dict[str, Any]:
        """Returns the row with all derived quantities, for the report."""
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
    """Returns the number of wrong elements in all rows and variants."""
    return sum(times.wrong or 0 for row in rows for times in row.times.values())


def report(header: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Returns the report: the entries of the header, and the rows."""
    return {**header, "rows": [row.as_json() for row in rows]}


def save_json(path: Path, found: dict[str, Any]) -> None:
    """Writes a report; creates its folder if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
