"""``xla-shmem train``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from xla_shmem.cli.job_options import INTERRUPTED, ending_on_signals
from xla_shmem.console import report_console
from xla_shmem.launch.rank_environment import inside_a_job
from xla_shmem.train import report as train_report
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.config_options import config_options, from_options
from xla_shmem.train.job_folder import check_folder, newest_checkpoint
from xla_shmem.train.job_run import RunError, run_job
from xla_shmem.train.progress import JobProgress
from xla_shmem.train.required_packages import TRAIN_PACKAGES, check_packages
from xla_shmem.train.step_log import LOG_NAME, StepRecord, read_records


@click.command("train")
@config_options()
def train_command(config: Path | None, **options: Any) -> None:
    """Train a Llama decoder on a mesh of devices: long sequences over context, tensor and data parallelism.

    Inside a job (xla-shmem launch, srun, mpirun) this process is one of its ranks. Otherwise it starts one process
    for each device of the mesh on this machine. As for any program, XLA_FLAGS selects the collectives' backend, and
    JAX_PLATFORMS the devices. The averages at the end are those of NVIDIA's post: means of steps 3 to 20 on rank 0.

    \b
    Examples:
      xla-shmem train --preset tiny --context 2 --seq 2048 --steps 100
      xla-shmem train --config job.toml --context 4 --tensor 2 --seq 32768
      xla-shmem train --corpus books/ --checkpoint-every 50 --resume
      srun xla-shmem train --config job.toml
    """
    job = from_options(config, options)
    console = report_console()
    try:
        check_packages("train", *TRAIN_PACKAGES)
        check_folder(job)
        if inside_a_job(os.environ):
            _be_a_rank(job, console)
        else:
            _launch(job, console)
    except (ValueError, RunError) as error:
        raise click.ClickException(str(error)) from None


def _launch(job: TrainConfig, console: Console) -> None:
    from xla_shmem.train.data import open_data

    console.print(f"{train_report.describe(job)}; {open_data(job)}.")
    with ending_on_signals(lambda: _kept(job)), JobProgress(console) as progress:
        records = run_job(job, progress.follow("train", job.steps))
    _report(job, records, console)


def _kept(job: TrainConfig) -> str:
    newest = newest_checkpoint(job)
    where = "no checkpoint" if newest is None else f"a checkpoint after {newest} of {job.steps} steps; --resume goes on"
    return f"{job.output} holds {where}."


def _be_a_rank(job: TrainConfig, console: Console) -> None:
    from xla_shmem.train.trainer import Stopped, run_rank

    with JobProgress(console) as progress:
        follow = None

        def on_step(record: StepRecord) -> None:
            nonlocal follow  # only rank 0 has records, and so a progress bar
            follow = follow or progress.follow("train", job.steps)
            follow(record)

        try:
            run_rank(job, on_step)
        except Stopped as stopped:
            click.echo(f"\n{stopped}", err=True)
            raise SystemExit(INTERRUPTED) from None
    if follow is not None:
        _report(job, read_records(Path(job.output) / LOG_NAME), console)


def _report(job: TrainConfig, records: list[StepRecord], console: Console) -> None:
    picture = Path(job.output) / "train.png"
    train_report.save_picture(picture, job, records)
    train_report.save_summary(Path(job.output) / "summary.json", job, records)
    for line in train_report.summary(job, records):
        console.print(line)
    console.print(f"Log: {Path(job.output) / LOG_NAME}, averages: summary.json, picture: {picture}", soft_wrap=True)
