"""What a comparison has measured: a row for each job, with what follows from its runs."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_run import Variant
from xla_shmem.train.side_by_side import Runs, disagreement, loss_differences
from xla_shmem.train.step_times import StepTimes, measured_seconds, step_times
from xla_shmem.train.throughput import step_flops

#: In this order: what is compared with each other runs one after the other.
TURN = (Variant.SILENT_SHMEM, Variant.SHMEM, Variant.STOCK, Variant.SILENT_STOCK)

#: The variant with the same transport whose ring sends nothing.
_SILENT = {Variant.SHMEM: Variant.SILENT_SHMEM, Variant.STOCK: Variant.SILENT_STOCK}


@dataclasses.dataclass(frozen=True)
class Row:
    """One job in all variants.

    Attributes:
      config: the job.
      runs: of every variant.
    """

    config: TrainConfig
    runs: Runs

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
        return statistics.median(stock / shmem for stock, shmem in self._turns(Variant.STOCK, Variant.SHMEM))

    def exposed(self, variant: Variant) -> float:
        """Seconds that the ring's transfers add to the median step of a turn; the median of the turns.

        Noise can make it negative where there is little to see.
        """
        return statistics.median(step - silent for step, silent in self._turns(variant, _SILENT[variant]))

    def _turns(self, one: Variant, other: Variant) -> Iterator[tuple[float, float]]:
        """Median steps of two variants in each turn, where they ran one after the other."""
        for runs in zip(self.runs[one], self.runs[other], strict=True):
            first, second = (statistics.median(measured_seconds(run)) for run in runs)
            yield first, second

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
            "stock_exposed_ring_s": self.exposed(Variant.STOCK),
            "shmem_exposed_ring_s": self.exposed(Variant.SHMEM),
            "largest_loss_difference": self.largest_difference(),
            "step_s": {variant.value: dataclasses.asdict(self.times(variant)) for variant in self.runs},
            "runs": {
                variant.value: [[record._asdict() for record in run] for run in runs]
                for variant, runs in self.runs.items()
            },
        }


def save_json(path: Path, header: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes the report: the header's entries and all rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**header, "rows": [row.as_json() for row in rows]}, indent=1) + "\n")
