"""The results of a comparison: one row per job, computed from its runs."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from long_context.compare.side_by_side import Runs, disagreement, loss_differences
from long_context.train.config import TrainConfig
from long_context.train.step_times import Means, StepTimes, means, measured_seconds, step_times
from xla_shmem.backends import PLUGIN, STOCK, Backend

#: The backends in the order of tables.
BACKENDS = (STOCK, PLUGIN)


@dataclasses.dataclass(frozen=True)
class Row:
    """One job with both backends.

    Attributes:
      config: the job.
      runs: its runs.
    """

    config: TrainConfig
    runs: Runs

    def times(self, backend: Backend) -> StepTimes:
        """Step times over all rounds."""
        return step_times(self.runs[backend])

    def means(self, backend: Backend) -> Means:
        """Step time and TFLOP/s of each device over all rounds: means, as in NVIDIA's post, and medians."""
        return means(self.runs[backend])

    @property
    def gain(self) -> float:
        """How much more TFLOP/s the plugin gives, of the means, as in NVIDIA's post; 0.3 means 30 %."""
        return self.means(PLUGIN).tflops_per_device / self.means(STOCK).tflops_per_device - 1

    @property
    def speed_ups(self) -> list[float]:
        """Median stock step over median step with the plugin, in each round."""
        rounds = zip(self.runs[STOCK], self.runs[PLUGIN], strict=True)
        medians = ([statistics.median(measured_seconds(run)) for run in runs] for runs in rounds)
        return [stock / moved for stock, moved in medians]

    @property
    def speed_up(self) -> float:
        """The median of `speed_ups`."""
        return statistics.median(self.speed_ups)

    def loss_differences(self) -> list[float]:
        """Relative difference of each step's losses."""
        return loss_differences(self.runs)

    def problem(self) -> str | None:
        """A sentence if the losses disagree."""
        sentence = disagreement(self.loss_differences())
        return None if sentence is None else f"sequence {self.config.sequence} on {self.config.mesh()}: {sentence}"

    def as_json(self) -> dict[str, Any]:
        """The row's results and the records of every step."""
        return {
            "sequence": self.config.sequence,
            "context": self.config.context,
            "tensor": self.config.tensor,
            "devices": self.config.devices,
            "sequence_per_device": self.config.sequence // self.config.context,
            "means": {backend.name: self.means(backend)._asdict() for backend in self.runs},
            "gain": self.gain,
            "speed_up": self.speed_up,
            "largest_loss_difference": max(self.loss_differences()),
            "step_s": {backend.name: dataclasses.asdict(self.times(backend)) for backend in self.runs},
            "runs": {
                backend.name: [[record._asdict() for record in run] for run in each]
                for backend, each in self.runs.items()
            },
        }


def report_as_json(header: dict[str, Any], rows: Sequence[Row]) -> str:
    """The report: the header's entries and all rows."""
    return json.dumps({**header, "rows": [row.as_json() for row in rows]}, indent=1)


def save_json(path: Path, header: dict[str, Any], rows: Sequence[Row]) -> None:
    """Writes what `report_as_json` returns, into a folder that it creates if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report_as_json(header, rows) + "\n")
