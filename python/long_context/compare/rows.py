"""The results of a comparison: one row per job, computed from its runs."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from long_context.compare.ring_kinds import Ring
from long_context.compare.side_by_side import Runs, disagreement, loss_differences
from long_context.compare.variants import Variant
from long_context.train.config import TrainConfig
from long_context.train.step_log import StepRecord
from long_context.train.step_times import MEASURED, Means, StepTimes, means, measured_seconds, step_times

#: Variants that a round runs for the speed-up.
TURN = (Variant.SHMEM, Variant.STOCK)

#: Variants that a round runs to measure what the ring adds.
RING_TURN = (Variant.RING_ON_SHMEM, Variant.RING_ON_STOCK)

#: For each transport the variant that measures its ring.
_RING_VARIANTS = {Variant.SHMEM: Variant.RING_ON_SHMEM, Variant.STOCK: Variant.RING_ON_STOCK}

#: Confidence with which an `Interval` contains the true median.
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A median of measurements in seconds, with a confidence interval (`CONFIDENCE`) of the true median."""

    median: float
    low: float
    high: float

    @property
    def above_noise(self) -> bool:
        """Whether the interval lies above 0. If not, a difference of times cannot be told from noise."""
        return self.low > 0


def median_interval(values: Sequence[float]) -> Interval:
    """The median with the interval of the sign test, which assumes nothing about the distribution.

    With too few values for such an interval, it is from the smallest to the largest value.
    """
    from scipy import stats  # slow to import; a dependency of jax

    interval = stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    low, high = (min(values), max(values)) if math.isnan(interval.low + interval.high) else interval
    return Interval(statistics.median(values), float(low), float(high))


@dataclasses.dataclass(frozen=True)
class Row:
    """One job on both transports.

    Attributes:
      config: the job.
      runs: the runs of every variant.
      ablations: the steps of the ring variants with a waiting and with a silent ring, one for every step in `runs`.
    """

    config: TrainConfig
    runs: Runs
    ablations: Mapping[Ring, Runs]

    def times(self, variant: Variant) -> StepTimes:
        """Step times over all rounds."""
        return step_times(self.runs[variant])

    def means(self, variant: Variant) -> Means:
        """Step time and TFLOP/s of each device over all rounds: means, as in NVIDIA's post, and medians."""
        return means(self.runs[variant])

    @property
    def gain(self) -> float:
        """How much more TFLOP/s SHMEM has, of the means, as in NVIDIA's post; 0.3 means 30 %."""
        shmem, stock = self.means(Variant.SHMEM), self.means(Variant.STOCK)
        return shmem.tflops_per_device / stock.tflops_per_device - 1

    @property
    def speed_up(self) -> float:
        """Median stock step over median SHMEM step in each round; of these the median."""
        rounds = zip(self.runs[Variant.STOCK], self.runs[Variant.SHMEM], strict=True)
        medians = ([statistics.median(measured_seconds(run)) for run in runs] for runs in rounds)
        return statistics.median(stock / shmem for stock, shmem in medians)

    def exposed(self, variant: Variant) -> Interval:
        """Seconds that the ring adds to a step if its blocks are on the transport of `variant`.

        Noise can make this and its parts negative.
        """
        return self._difference(variant, Ring.SENDING, Ring.SILENT)

    def transfers(self, variant: Variant) -> Interval:
        """The part of `exposed` that the transfers of blocks take."""
        return self._difference(variant, Ring.SENDING, Ring.WAITING)

    def waits(self, variant: Variant) -> Interval:
        """The part of `exposed` that ranks wait for a slower rank, which every transport has to do."""
        return self._difference(variant, Ring.WAITING, Ring.SILENT)

    def _difference(self, variant: Variant, ring: Ring, less: Ring) -> Interval:
        """Seconds of a step with `ring` minus those of the step with `less` in the same turn, from step MEASURED[0]."""
        runs = _RING_VARIANTS[variant]
        return median_interval(
            [
                step.seconds - other.seconds
                for run, other_run in zip(self._steps(ring, runs), self._steps(less, runs), strict=True)
                for step, other in zip(run, other_run, strict=True)
                if step.step >= MEASURED[0]
            ]
        )

    def _steps(self, ring: Ring, runs: Variant) -> Sequence[Sequence[StepRecord]]:
        return (self.runs if ring is Ring.SENDING else self.ablations[ring])[runs]

    def largest_difference(self) -> float:
        """Largest relative difference of a step's losses on SHMEM and on stock."""
        return max(loss_differences(self.runs))

    def problem(self) -> str | None:
        """A sentence if the losses disagree."""
        sentence = disagreement(loss_differences(self.runs))
        return None if sentence is None else f"sequence {self.config.sequence} on {self.config.mesh()}: {sentence}"

    def as_json(self) -> dict[str, Any]:
        """The row's results and the records of every step."""
        return {
            "sequence": self.config.sequence,
            "context": self.config.context,
            "tensor": self.config.tensor,
            "devices": self.config.devices,
            "sequence_per_device": self.config.sequence // self.config.context,
            "means": {variant.value: self.means(variant)._asdict() for variant in TURN},
            "gain": self.gain,
            "speed_up": self.speed_up,
            "ring_s": {
                variant.value: {
                    "exposed": self.exposed(variant)._asdict(),
                    "transfers": self.transfers(variant)._asdict(),
                    "waits": self.waits(variant)._asdict(),
                }
                for variant in _RING_VARIANTS
            },
            "largest_loss_difference": self.largest_difference(),
            "step_s": {variant.value: dataclasses.asdict(self.times(variant)) for variant in self.runs},
            "runs": _as_json(self.runs),
            "ablations": {ring.value: _as_json(runs) for ring, runs in self.ablations.items()},
        }


def _as_json(runs: Runs) -> dict[str, Any]:
    return {variant.value: [[record._asdict() for record in run] for run in each] for variant, each in runs.items()}


def save_json(path: Path, header: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes the report: the header's entries and all rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**header, "rows": [row.as_json() for row in rows]}, indent=1) + "\n")
