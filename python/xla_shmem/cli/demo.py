"""`xla-shmem demo`: the same training job with SHMEM collectives and with stock ones, compared."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from xla_shmem.compare import demo_report
from xla_shmem.compare.side_by_side import (
    LOSS_TOLERANCE,
    assignments,
    disagreement,
    loss_differences,
    run_folder,
    run_in_turns,
)
from xla_shmem.hlo.collective_report import print_tables
from xla_shmem.train.config import ConfigError, TrainConfig
from xla_shmem.train.config_options import config_options, from_options
from xla_shmem.train.job_run import RunError, Variant
from xla_shmem.train.needed import TRAIN_PACKAGES, check_packages
from xla_shmem.train.progress import JobProgress
from xla_shmem.train.report import describe
from xla_shmem.train.step_times import MEASURED

#: Options of `xla-shmem train` that make no sense here: a run begins anew in a folder of its own.
_LEFT_OUT = ("corpus", "token_dtype", "out", "checkpoint_every", "checkpoints_kept", "resume")

#: Exit code after Ctrl-C: 128 plus SIGINT.
_INTERRUPTED = 130


class DemoError(Exception):
    """The demo did not show what it is there to show; the message says why."""


def run_demo(config: TrainConfig, out: Path, repeats: int = 1) -> None:
    """Runs the job on both transports in turn, prints the comparison and saves it under `out`.

    Args:
      config: the job.
      out: folder for logs, dumps and `demo.png`; created if missing.
      repeats: how often each transport runs: SHMEM, stock, stock, SHMEM, …

    Raises:
      DemoError: options that make no comparison, a missing package, a run that failed, losses that disagree, or no
        collective that was moved to SHMEM.
    """
    _check(config, repeats)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False)
    console.print(f"Training on Python's standard library for {config.steps} steps: {describe(config)}.")
    try:
        with JobProgress(console) as progress:
            runs = run_in_turns(config, out, (Variant.SHMEM, Variant.STOCK), repeats, progress)
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


def _check(config: TrainConfig, repeats: int) -> None:
    if repeats < 1:
        raise DemoError(f"repeats is {repeats}; it must be at least 1.")
    if config.devices < 2:
        raise DemoError("One rank has nobody to talk to; choose a mesh (--context, --data, …) of at least 2 ranks.")
    first = MEASURED[0]
    if config.steps < first + 2:
        raise DemoError(f"Step times are taken from step {first} on; choose at least {first + 2} steps.")
    try:
        check_packages("the demo", *TRAIN_PACKAGES)
    except ConfigError as error:
        raise DemoError(str(error)) from None


@click.command("demo")
@config_options(leave_out=_LEFT_OUT)
@click.option("--repeats", default=1, show_default=True, help="Runs on each transport, in turn.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder for logs, compiled modules and the picture.",
)
def demo_command(config: Path | None, repeats: int, out: Path, **options: Any) -> None:
    """Train a small Llama with SHMEM collectives and with stock ones, and compare.

    A byte-level decoder learns the sources of Python's standard library, its sequence spread over 4 local
    processes by ring attention. Prints what was decided about each collective, both loss curves and the step
    times.
    """
    job = from_options(config, options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_demo(job, out, repeats)
    except DemoError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo(f"\nStopped; all ranks have ended. What they printed is under {out}.", err=True)
        raise SystemExit(_INTERRUPTED) from None


if __name__ == "__main__":
    demo_command()
