"""Runs a training job with several backends in turns, and checks that they computed the same losses."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from long_context.train.config import TrainConfig
from long_context.train.job_run import RANK, run_job
from long_context.train.progress import JobProgress
from long_context.train.step_log import StepRecord
from xla_shmem.backends import PLUGIN, STOCK, Backend, dumping, keep_compiled_modules
from xla_shmem.launch.launcher import GRACE

#: Largest accepted |a - b| / |b| of a step's losses. Transports add the ranks' f32 gradients in different orders, so a
#: sum may differ by about ranks x 2^-23 (1.2e-7), and later steps accumulate the differences.
LOSS_TOLERANCE = 1e-4

#: Seconds without a finished step after which a run counts as stuck; the first step includes compilation.
STUCK_AFTER = 180.0

Runs = Mapping[Backend, Sequence[Sequence[StepRecord]]]  # per backend, per round, per step


def run_in_turns(
    config: TrainConfig,
    out: Path,
    rounds: int,
    progress: JobProgress,
    name: str = "",
    *,
    gpus: bool = False,
    backends: Sequence[Backend] = (PLUGIN, STOCK),
    rank: Sequence[str] = RANK,
) -> Runs:
    """Runs the job once per round with every backend; the order is reversed in every second round.

    Args:
      config: the job.
      out: gets a folder for each run.
      rounds: number of runs with each backend.
      progress: shows the runs.
      name: prefix of the runs' names.
      gpus: whether every rank has a GPU, instead of CPU devices.
      backends: the backends.
      rank: the ranks' program without its arguments.

    Raises:
      UserError: a run failed, or one that was to move collectives moved none.
    """
    runs: dict[Backend, list[list[StepRecord]]] = {backend: [] for backend in backends}
    for number in range(1, rounds + 1):
        for backend in backends if number % 2 else reversed(backends):
            title = backend.name if rounds == 1 else f"{backend.name} {number}"
            job = dataclasses.replace(config, output=str(run_folder(out, backend, number)))
            follow = progress.follow(f"{name}{title}", config.steps)
            runs[backend].append(_run(backend, job, follow, rank, gpus=gpus))
            backend.check(dump_folder(out, backend, number))
    return runs


def run_folder(out: Path, backend: Backend, number: int) -> Path:
    """Folder of a run's log and output; `number` is that of the round, from 1."""
    return out / f"{backend.name.lower().replace(' ', '-')}-{number}"


def dump_folder(out: Path, backend: Backend, number: int) -> Path:
    """Folder of a run's compiled training step."""
    return run_folder(out, backend, number) / "hlo"


def _run(
    backend: Backend, config: TrainConfig, on_step: Callable[[StepRecord], None], rank: Sequence[str], *, gpus: bool
) -> list[StepRecord]:
    """Runs the job from the beginning and keeps rank 0's compiled training step in `hlo/` of its folder.

    Stopped ranks get the launcher's short grace period, so a stop during compilation does not take long.
    """
    dump = Path(config.output) / "hlo"
    try:
        return run_job(
            config,
            on_step,
            name=f"the {backend.name} run",
            rank=dumping(rank, dump, ".*train_step.*"),
            environment=backend.environment(os.environ, gpus=gpus),
            stuck_after=STUCK_AFTER,
            grace=GRACE,
        )
    finally:
        keep_compiled_modules(dump)


def loss_differences(runs: Runs) -> list[float]:
    """Relative difference of each step's losses, the largest of all rounds; NaN if one is not finite."""
    per_round = [
        [_relative_difference(a.loss, b.loss) for a, b in zip(moved, stock, strict=True)]
        for moved, stock in zip(runs[PLUGIN], runs[STOCK], strict=True)
    ]
    per_step = zip(*per_round, strict=True)
    return [math.nan if any(map(math.isnan, values)) else max(values) for values in per_step]


def _relative_difference(a: float, b: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.nan
    return abs(a - b) / abs(b) if a != b else 0.0


def disagreement(differences: Sequence[float]) -> str | None:
    """A sentence about the first step whose losses differ by more than `LOSS_TOLERANCE`; None if there is none."""
    for step, difference in enumerate(differences):
        if math.isnan(difference):
            return f"The loss of step {step} is not a finite number."
        if difference > LOSS_TOLERANCE:
            return (
                f"The losses of step {step} differ by {difference:.1e} of their value; rounding explains at most "
                f"{LOSS_TOLERANCE:.0e}."
            )
    return None
