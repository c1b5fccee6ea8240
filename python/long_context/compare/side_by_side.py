"""Runs several variants of a training job in turns, and checks that they computed the same losses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from long_context.compare.variants import Variant, run_variant
from long_context.train.config import TrainConfig
from long_context.train.job_run import RunError
from long_context.train.progress import JobProgress
from long_context.train.step_log import StepRecord
from xla_shmem.hlo.collective_report import ModuleReport
from xla_shmem.hlo.files import HloFileError, read_modules

#: Largest accepted |SHMEM - stock| / |stock| of a step's loss. The two transports add the ranks' f32 gradients in
#: different orders, so a sum may differ by about ranks x 2^-23 (1.2e-7), and later steps accumulate the differences.
LOSS_TOLERANCE = 1e-4

Runs = Mapping[Variant, Sequence[Sequence[StepRecord]]]  # per variant, per round, per step


def run_in_turns(
    config: TrainConfig,
    out: Path,
    variants: Sequence[Variant],
    rounds: int,
    progress: JobProgress,
    name: str = "",
    *,
    gpus: bool = False,
) -> Runs:
    """Runs every variant once per round; the order is reversed in every second round.

    Args:
      config: the job.
      out: gets a folder for each run.
      variants: the variants to run.
      rounds: number of runs of each variant.
      progress: shows the runs.
      name: prefix of the runs' names.
      gpus: whether every rank has a GPU, instead of CPU devices.

    Raises:
      RunError: a run failed, or a run with the flag had no collective on SHMEM.
    """
    runs: dict[Variant, list[list[StepRecord]]] = {variant: [] for variant in variants}
    for number in range(1, rounds + 1):
        for variant in variants if number % 2 else reversed(variants):
            title = variant.value if rounds == 1 else f"{variant.value} {number}"
            job = dataclasses.replace(config, output=str(run_folder(out, variant, number)))
            follow = progress.follow(f"{name}{title}", config.steps)
            runs[variant].append(run_variant(variant, job, follow, gpus=gpus))
            if variant.flag:
                _check_moved(assignments(Path(job.output)))
    return runs


def run_folder(out: Path, variant: Variant, number: int) -> Path:
    """Folder of a run's log, output and compiled step; `number` is that of the round, from 1."""
    return out / f"{variant.value.lower().replace(' ', '-')}-{number}"


def assignments(folder: Path) -> list[ModuleReport]:
    """The collectives of a run's training step, as recorded in its compiled module.

    Raises:
      RunError: the dump cannot be read.
    """
    try:
        from xla_shmem import _core

        return [
            ModuleReport(module.source, module.name, _core.inspect_module(module.proto))
            for module in read_modules(str(folder / "hlo"))
        ]
    except ImportError as error:
        raise RunError(f"The compiled module of xla-shmem is missing ({error}); install it again.") from None
    except (HloFileError, ValueError) as error:
        raise RunError(f"The assignment table cannot be shown: {error}") from None


def _check_moved(reports: list[ModuleReport]) -> None:
    """Makes sure that a run does not compare stock with itself.

    Raises:
      RunError: no collective is on SHMEM.
    """
    if not any(record.get("lowered") == "NVSHMEM" for report in reports for record in report.records):
        raise RunError(
            "The flag was set, but no collective of the training step was moved to SHMEM. Check that xla-shmem is "
            "installed, so that JAX finds its plugin; `xla-shmem inspect` on the hlo folder shows the decisions."
        )


def loss_differences(runs: Runs) -> list[float]:
    """|SHMEM - stock| / |stock| of each step's loss, the largest of all rounds; NaN if a loss is not finite."""
    per_round = [
        [_relative_difference(a.loss, b.loss) for a, b in zip(shmem, stock, strict=True)]
        for shmem, stock in zip(runs[Variant.SHMEM], runs[Variant.STOCK], strict=True)
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
