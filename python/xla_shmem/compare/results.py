"""What a comparison has measured: a row for each job, with what follows from its runs."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xla_shmem.compare.ring_kinds import Ring
from xla_shmem.compare.side_by_side import Runs, disagreement, loss_differences
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_run import Variant
from xla_shmem.train.step_log import StepRecord
from xla_shmem.train.step_times import MEASURED, StepTimes, measured_seconds, step_times
from xla_shmem.train.throughput import step_flops

#: What a turn runs for the speed-up, one after the other.
TURN = (Variant.SHMEM, Variant.STOCK)

#: What a turn runs to take the ring apart.
RING_TURN = (Variant.RING_ON_SHMEM, Variant.RING_ON_STOCK)

#: The runs that take a transport's ring apart.
_TAKEN_APART = {Variant.SHMEM: Variant.RING_ON_SHMEM, Variant.STOCK: Variant.RING_ON_STOCK}

#: How sure `Interval` is that the true median lies in it.
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A median in seconds, and where the median of infinitely many such measurements lies (`CONFIDENCE`)."""

    median: float
    low: float
    high: float


def median_interval(values: Sequence[float]) -> Interval:
    """The median with the interval of the sign test, which asks nothing of how the values are spread.

    Of too few values for such an interval, the least and the largest.
    """
    from scipy import stats  # takes a while to import

    interval = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    low, high = (min(values), max(values)) if math.isnan(interval.low + interval.high) else interval
    return Interval(statistics.median(values), float(low), float(high))


@dataclasses.dataclass(frozen=True)
class Row:
    """One job on both transports.

    Attributes:
      config: the job.
      runs: of every variant.
      twins: the steps of the runs that take the ring apart with the other kinds of ring, for every step in `runs`.
    """

    config: TrainConfig
    runs: Runs
    twins: Mapping[Ring, Runs]

    def times(self, variant: Variant) -> StepTimes:
        """Step times of all repeats."""
        return step_times(self.runs[variant])

    def tflops(self, variant: Variant) -> float:
        """Model TFLOP/s of each device, at the median step."""
        flops = step_flops(self.config.model(), self.config.batch, self.config.sequence)
        return flops / self.times(variant).median / self.config.devices / 1e12

    @property
    def speed_up(self) -> float:
        """Median stock step over median SHMEM step of a turn; the median of the turns."""
        turns = zip(self.runs[Variant.STOCK], self.runs[Variant.SHMEM], strict=True)
        medians = ([statistics.median(measured_seconds(run)) for run in turn] for turn in turns)
        return statistics.median(stock / shmem for stock, shmem in medians)

    def exposed(self, variant: Variant) -> Interval:
        """Seconds that the ring adds to a step where it is on the transport of `variant`.

        Noise can make it negative where there is little to see; so for what it consists of.
        """
        return self._difference(variant, Ring.SENDING, Ring.SILENT)

    def transfers(self, variant: Variant) -> Interval:
        """Of the seconds that the ring adds, those that moving its blocks takes."""
        return self._difference(variant, Ring.SENDING, Ring.WAITING)

    def waits(self, variant: Variant) -> Interval:
        """Of the seconds that the ring adds, those that ranks wait for a slower one, whatever carries the blocks."""
        return self._difference(variant, Ring.WAITING, Ring.SILENT)

    def _difference(self, variant: Variant, ring: Ring, less: Ring) -> Interval:
        """Of all turns of steps with the one kind of ring and the other. The first do not count, as for step times."""
        runs = _TAKEN_APART[variant]
        return median_interval(
            [
                step.seconds - other.seconds
                for run, other_run in zip(self._steps(ring, runs), self._steps(less, runs), strict=True)
                for step, other in zip(run, other_run, strict=True)
                if step.step >= MEASURED[0]
            ]
        )

    def _steps(self, ring: Ring, runs: Variant) -> Sequence[Sequence[StepRecord]]:
        return (self.runs if ring is Ring.SENDING else self.twins[ring])[runs]

    def largest_difference(self) -> float:
        """Of the losses, SHMEM's from stock's, relative."""
        return max(loss_differences(self.runs))

    def problem(self) -> str | None:
        """A sentence if the losses disagree."""
        sentence = disagreement(loss_differences(self.runs))
        return None if sentence is None else f"sequence {self.config.sequence} on {self.config.mesh()}: {sentence}"

    def as_json(self) -> dict[str, Any]:
        """The row with everything that follows from it, and every step."""
        return {
            "sequence": self.config.sequence,
            "context": self.config.context,
            "tensor": self.config.tensor,
            "devices": self.config.devices,
            "sequence_per_device": self.config.sequence // self.config.context,
            "stock_tflops_per_device": self.tflops(Variant.STOCK),
            "shmem_tflops_per_device": self.tflops(Variant.SHMEM),
            "speed_up": self.speed_up,
            "ring_s": {
                variant.value: {
                    "exposed": self.exposed(variant)._asdict(),
                    "transfers": self.transfers(variant)._asdict(),
                    "waits": self.waits(variant)._asdict(),
                }
                for variant in _TAKEN_APART
            },
            "largest_loss_difference": self.largest_difference(),
            "step_s": {variant.value: dataclasses.asdict(self.times(variant)) for variant in self.runs},
            "runs": _as_json(self.runs),
            "twins": {ring.value: _as_json(runs) for ring, runs in self.twins.items()},
        }


def _as_json(runs: Runs) -> dict[str, Any]:
    return {variant.value: [[record._asdict() for record in run] for run in each] for variant, each in runs.items()}


def save_json(path: Path, header: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes the report: the header's entries and all rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**header, "rows": [row.as_json() for row in rows]}, indent=1) + "\n")
