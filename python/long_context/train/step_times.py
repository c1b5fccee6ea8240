"""Step times of runs over the measured steps. Free of JAX."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from long_context.train.step_log import StepRecord

#: First and last measured step: the window of NVIDIA's post "Accelerating Long-Context Model Training in JAX and XLA".
MEASURED = (3, 20)


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """Seconds of the measured steps of runs of one job."""

    mean: float
    median: float
    lower_quartile: float
    upper_quartile: float
    shortest: float
    longest: float
    count: int


class Means(NamedTuple):
    """What NVIDIA's post reports of a job, means over the measured steps in rank 0's log, and the medians beside them.

    Attributes:
      step_s, median_step_s: seconds of a step.
      tflops_per_device, median_tflops_per_device: model TFLOP/s; the mean is that of the steps' TFLOP/s.
    """

    step_s: float
    tflops_per_device: float
    median_step_s: float
    median_tflops_per_device: float


def means(runs: Sequence[Sequence[StepRecord]]) -> Means:
    """The means and medians over the measured steps of all runs together.

    Raises:
      ValueError: no measured step.
    """
    measured = [record for run in runs for record in measured_records(run)]
    if not measured:
        raise ValueError(f"no run has a step from {MEASURED[0]} to {MEASURED[1]} that did not compile.")
    seconds = [record.seconds for record in measured]
    tflops = [record.tflops_per_device for record in measured]
    return Means(*(average(values) for average in (statistics.mean, statistics.median) for values in (seconds, tflops)))


def measured_records(run: Sequence[StepRecord]) -> list[StepRecord]:
    """The run's measured steps, without steps that compiled (a resumed job compiles again)."""
    first, last = MEASURED
    return [record for record in run if first <= record.step <= last and not record.compiled]


def measured_seconds(run: Sequence[StepRecord]) -> list[float]:
    """Seconds of the run's measured steps."""
    return [record.seconds for record in measured_records(run)]


def step_times(runs: Sequence[Sequence[StepRecord]]) -> StepTimes:
    """Statistics over the measured steps of all runs together.

    Raises:
      ValueError: fewer than two measured steps.
    """
    seconds = [second for run in runs for second in measured_seconds(run)]
    if len(seconds) < 2:
        raise ValueError(f"{len(seconds)} measured steps are too few for a spread.")
    lower, median, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    return StepTimes(statistics.mean(seconds), median, lower, upper, min(seconds), max(seconds), len(seconds))
