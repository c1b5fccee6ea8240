"""The same training job in several variants, in turn; and whether they computed the same."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from xla_shmem.hlo.collective_report import ModuleReport
from xla_shmem.hlo.files import HloFileError, read_modules
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_run import RunError, Variant, run_variant
from xla_shmem.train.progress import JobProgress
from xla_shmem.train.step_log import StepRecord

#: Largest accepted |SHMEM - stock| / |stock| of a step's loss. The two transports add the ranks' f32
#: gradients in different orders, so a sum may differ by some ranks x 2^-23 (1.2e-7), and every later step
#: starts from the difference.
LOSS_TOLERANCE = 1e-4

Runs = Mapping[Variant, Sequence[Sequence[StepRecord]]]  # per variant, per repeat, per step


def run_in_turns(
    config: TrainConfig, out: Path, variants: Sequence[Variant], repeats: int, progress: JobProgress, name: str = ""
) -> Runs:
    """Runs every variant, then every variant again; whoever was first is last in the next turn.

    Args:
      config: the job.
      out: gets a folder for each run.
      variants: what to run.
      repeats: turns.
      progress: shows the runs.
      name: in front of theirs.

    Raises:
      RunError: a run failed, or one on SHMEM had no collective there.
    """
    runs: dict[Variant, list[list[StepRecord]]] = {variant: [] for variant in variants}
    for repeat in range(1, repeats + 1):
        for variant in variants if repeat % 2 else reversed(variants):
            title = variant.value if repeats == 1 else f"{variant.value} {repeat}"
            job = dataclasses.replace(config, output=str(run_folder(out, variant, repeat)))
            runs[variant].append(run_variant(variant, job, progress.follow(f"{name}{title}", config.steps)))
            if variant.flag:
                _check_moved(assignments(Path(job.output)))
    return runs


def run_folder(out: Path, variant: Variant, repeat: int) -> Path:
    """Where a run keeps its log, output and compiled step."""
    return out / f"{variant.value.lower().replace(' ', '-')}-{repeat}"


def assignments(folder: Path) -> list[ModuleReport]:
    """The collectives of a run's training step, as its compiled module records them.

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
    """Compares stock with itself? Noise would pass for speed-up.

    Raises:
      RunError: SHMEM carries no collective.
    """
    if not any(record.get("lowered") == "NVSHMEM" for report in reports for record in report.records):
        raise RunError(
            "The flag was set, but no collective of the training step was moved to SHMEM. Is the package "
            "installed, so that JAX finds its plugin? `xla-shmem inspect` on the hlo folder shows what was "
            "decided."
        )


def loss_differences(runs: Runs) -> list[float]:
    """|SHMEM - stock| / |stock| of each step's loss, the largest of the repeats; NaN if one is not finite."""
    per_repeat = [
        [_relative_difference(a.loss, b.loss) for a, b in zip(shmem, stock, strict=True)]
        for shmem, stock in zip(runs[Variant.SHMEM], runs[Variant.STOCK], strict=True)
    ]
    per_step = zip(*per_repeat, strict=True)
    return [math.nan if any(map(math.isnan, values)) else max(values) for values in per_step]


def _relative_difference(a: float, b: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.nan
    return abs(a - b) / abs(b) if a != b else 0.0


def disagreement(differences: Sequence[float]) -> str | None:
    """A sentence that says where the losses disagree, or None if they agree to `LOSS_TOLERANCE`."""
    for step, difference in enumerate(differences):
        if math.isnan(difference):
            return f"The loss of step {step} is not a finite number."
        if difference > LOSS_TOLERANCE:
            return (
                f"The losses of step {step} differ by {difference:.1e} of their value, more than the "
                f"{LOSS_TOLERANCE:.0e} that rounding explains."
            )
    return None
