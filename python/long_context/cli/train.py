"""`xla-shmem train`: the command outside a job, and in it each rank."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from long_context.cli.config_options import config_options, from_options
from long_context.train import summary
from long_context.train.config import TrainConfig
from long_context.train.job_folder import check_folder, newest_checkpoint
from long_context.train.job_run import run_job
from long_context.train.progress import JobProgress
from long_context.train.step_log import LOG_NAME, StepRecord, read_records
from xla_shmem.cli.job_options import INTERRUPTED, ending_on_signals, json_option
from xla_shmem.cli.one_sentence_errors import one_sentence_errors
from xla_shmem.console import report_console
from xla_shmem.errors import UserError
from xla_shmem.launch.rank_environment import inside_a_job


@click.command("train")
@config_options()
@json_option
@one_sentence_errors
def train_command(config: Path | None, as_json: bool, **options: Any) -> None:
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
      xla-shmem train --preset tiny --json | jq .step_s
    """
    job = from_options(config, options)
    console = report_console(stderr=as_json)
    try:
        check_folder(job)
        records = _be_a_rank(job, console) if inside_a_job(os.environ) else _launch(job, console)
    except ValueError as error:
        raise UserError(str(error)) from None
    if records:
        if as_json:
            click.echo(summary.as_json(job, records))
        for line in summary.summary(job, records):
            console.print(line)
        picture = summary.without_pictures() or "picture: train.png"
        console.print(f"Log: {Path(job.output) / LOG_NAME}, averages: summary.json, {picture}", soft_wrap=True)


def _launch(job: TrainConfig, console: Console) -> list[StepRecord]:
    """Runs the job in processes of this machine."""
    from long_context.train.job_tokens import open_data

    console.print(f"{summary.describe(job)}; {open_data(job)}.")
    with ending_on_signals(lambda: _kept(job)), JobProgress(console) as progress:
        return run_job(job, progress.follow("train", job.steps))


def _kept(job: TrainConfig) -> str:
    newest = newest_checkpoint(job)
    where = "no checkpoint" if newest is None else f"a checkpoint after {newest} of {job.steps} steps; --resume goes on"
    return f"{job.output} holds {where}."


def _be_a_rank(job: TrainConfig, console: Console) -> list[StepRecord]:
    """Runs this process's part of the job; rank 0 shows and returns the records, and saves averages and picture."""
    from long_context.train.trainer import Stopped, run_rank

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
    if follow is None:
        return []
    records = read_records(Path(job.output) / LOG_NAME)
    summary.save_summary(Path(job.output) / "summary.json", job, records)
    if not summary.without_pictures():
        summary.save_picture(Path(job.output) / "train.png", job, records)
    return records


if __name__ == "__main__":
    train_command(prog_name="xla-shmem train")
