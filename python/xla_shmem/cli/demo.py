"""`xla-shmem demo`: the same training job with SHMEM collectives and with stock ones, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from xla_shmem.cli.job_options import ending_on_signals, rounds_option
from xla_shmem.compare import demo_report
from xla_shmem.compare.side_by_side import (
    LOSS_TOLERANCE,
    assignments,
    disagreement,
    loss_differences,
    run_folder,
    run_in_turns,
)
from xla_shmem.compare.variants import Variant
from xla_shmem.errors import UserError
from xla_shmem.hlo.collective_report import print_tables
from xla_shmem.train.config import ConfigError, TrainConfig
from xla_shmem.train.config_options import config_options, from_options
from xla_shmem.train.job_run import RunError
from xla_shmem.train.progress import JobProgress
from xla_shmem.train.report import describe
from xla_shmem.train.required_packages import TRAIN_PACKAGES, check_packages
from xla_shmem.train.step_times import MEASURED

#: Fields of a job that every run sets itself: it starts from nothing, in a folder of its own.
_LEFT_OUT = ("corpus", "token_dtype", "output", "checkpoint_every", "checkpoints_kept", "resume")


class DemoError(UserError):
    """The two runs do not make a comparison; the message says why."""


def run_demo(config: TrainConfig, out: Path, rounds: int = 1) -> None:
    """Runs the job on both transports in turn, prints the comparison and saves it under `out`.

    Args:
      config: the job.
      out: folder for logs, dumps and `demo.png`; created if missing.
      rounds: runs of each transport: SHMEM, stock, stock, SHMEM, …

    Raises:
      DemoError: an unsuitable option, a missing package, a failed run, losses that disagree, or no collective on SHMEM.
    """
    _check(config)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    console.print(f"Training on Python's standard library for {config.steps} steps: {describe(config)}.")
    try:
        with JobProgress(console) as progress:
            runs = run_in_turns(config, out, (Variant.SHMEM, Variant.STOCK), rounds, progress)
        reports = assignments(run_folder(out, Variant.SHMEM, 1))
    except RunError as error:
        raise DemoError(str(error)) from None
    differences = loss_differences(runs)
    picture = out / "demo.png"
    demo_report.save_picture(picture, config, runs, differences)

    print_tables(reports)
    console.print(demo_report.loss_table(runs, differences))
    console.print(f"Largest relative difference {max(differences):.1e}; {LOSS_TOLERANCE:.0e} is accepted.\n")
    console.print(demo_report.time_table(runs))
    console.print(demo_report.speed_up_sentence(runs))
    console.print(f"Picture: {picture}", soft_wrap=True)
    if problem := disagreement(differences):
        raise DemoError(problem)


def _check(config: TrainConfig) -> None:
    if config.devices < 2:
        raise DemoError("One rank has no other to send to; choose a mesh (--context, --data, …) of at least 2 ranks.")
    first = MEASURED[0]
    if config.steps < first + 2:
        raise DemoError(f"Step times are taken from step {first} on; choose at least {first + 2} steps.")
    try:
        check_packages("the demo", *TRAIN_PACKAGES)
    except ConfigError as error:
        raise DemoError(str(error)) from None


@click.command("demo")
@config_options(leave_out=_LEFT_OUT)
@rounds_option(1)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    default=Path("out/demo"),
    show_default=True,
    help="Where to write: logs, compiled modules and the picture.",
)
def demo_command(config: Path | None, rounds: int, output: Path, **options: Any) -> None:
    """Train a small Llama with SHMEM collectives and with stock ones, and compare.

    A byte-level decoder learns the sources of Python's standard library. Ring attention splits its sequence over 4
    local processes. Prints the decision for each collective, both loss curves and the step times.
    """
    job = from_options(config, options)
    with ending_on_signals(lambda: f"Their output is under {output}."):
        try:
            run_demo(job, output, rounds)
        except DemoError as error:
            raise click.ClickException(str(error)) from None
