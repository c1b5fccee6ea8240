"""``xla-shmem compare``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from xla_shmem.cli.job_options import Command, ending_on_signals, platform_option, rounds_option
from xla_shmem.compare import report as compare_report
from xla_shmem.compare.plan import plan, read_list
from xla_shmem.compare.results import RING_TURN, TURN, Row, save_json
from xla_shmem.compare.ring_kinds import Ring
from xla_shmem.compare.side_by_side import run_folder, run_in_turns
from xla_shmem.console import report_console
from xla_shmem.errors import BenchError
from xla_shmem.gpu.chosen_gpus import Gpus, chosen_gpus
from xla_shmem.machine import describe_machine
from xla_shmem.quantities import plural
from xla_shmem.train.config import ConfigError, TrainConfig
from xla_shmem.train.config_options import config_options, from_options
from xla_shmem.train.job_run import RunError
from xla_shmem.train.progress import JobProgress
from xla_shmem.train.required_packages import TRAIN_PACKAGES, check_packages
from xla_shmem.train.step_log import read_records
from xla_shmem.train.step_times import MEASURED

#: Fields of a job that are lists here, or that every run sets itself.
_LEFT_OUT = ("sequence", "context", "tensor", "output", "checkpoint_every", "checkpoints_kept", "resume")

#: Up to the last measured step.
_STEPS = 21


def _list_option(*names: str, default: str, words: str) -> Callable[[Command], Command]:
    return click.option(*names, default=default, show_default=True, metavar="LIST", help=f"{words}, a list.")


@click.command("compare")
@config_options(leave_out=_LEFT_OUT)
@_list_option("--sequence", "--seq", "sequences", default="1024,2048,4096", words="Tokens in a sequence")
@_list_option("--context", "contexts", default="2,4", words="Devices along the mesh axis that splits the sequence")
@_list_option(
    "--tensor", "tensors", default="1", words="Devices along the mesh axis that splits heads and hidden features"
)
@rounds_option(1)
@platform_option()
@click.option(
    "--ring-steps",
    type=click.IntRange(min=1),
    metavar="N",
    default=40,
    show_default=True,
    help="Steps of a round that are measured with the ring's transfers, and as many without.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    default=Path("out/compare"),
    show_default=True,
    help="Where to write: everything measured (compare.json), the picture (compare.png), and each run's log.",
)
def compare_command(
    config: Path | None,
    sequences: str,
    contexts: str,
    tensors: str,
    rounds: int,
    platform: str,
    ring_steps: int,
    output: Path,
    **options: Any,
) -> None:
    """Time a training job with SHMEM collectives and with the default backend, at several lengths and meshes.

    Prints medians, means of steps 3 to 20 on rank 0 in the columns of Table 2 of NVIDIA's post, and the time that the
    ring adds to a step: a step that sends, less a neighbouring step whose ring sends nothing. That time is split into
    transfers and waiting for slower ranks. The variants take turns, on CPU processes or GPUs of this machine.

    The exit code is 1 if the losses of the two backends do not agree.

    \b
    Examples:
      xla-shmem compare --preset tiny --seq 1024,4096 --context 2,4
      xla-shmem compare --context 2 --tensor 1,2 --rounds 5
    """
    job = from_options(config, options, defaults={"steps": _STEPS, "context": 2})
    try:
        check_packages("compare", *TRAIN_PACKAGES)
        lengths, rings = read_list("sequence", sequences), read_list("context", contexts)
        jobs = plan(job, lengths, rings, read_list("tensor", tensors))
        gpus = _gpus(platform, max(each.devices for each in jobs))
    except (ConfigError, BenchError) as error:
        raise click.UsageError(str(error)) from None
    with ending_on_signals(lambda: f"Measurements so far are under {output}."):
        try:
            rows = _run(jobs, output.resolve(), rounds, ring_steps, gpus)
        except RunError as error:
            raise click.ClickException(str(error)) from None
    if problems := [problem for row in rows if (problem := row.problem()) is not None]:
        raise click.ClickException("\n".join(problems))


def _gpus(platform: str, ranks: int) -> Gpus | None:
    gpus = chosen_gpus(platform, ranks, os.environ)
    if gpus is not None and len(gpus.names) < ranks:
        raise BenchError(f"{ranks} ranks need as many GPUs, because NCCL takes one rank a GPU: choose smaller meshes.")
    return gpus


def _run(jobs: list[TrainConfig], out: Path, rounds: int, ring_steps: int, gpus: Gpus | None) -> list[Row]:
    """Runs all jobs; prints and saves the measurements, also those before Ctrl-C."""
    console = report_console()
    machine = describe_machine()
    where = f"{machine['cores']} cores, {machine['cpu']}" if gpus is None else str(gpus)
    what = f"{jobs[0].preset}, {plural(rounds, 'turn')} of each variant"
    console.print(f"{what}, on {where}, load {machine['load'][0]:.1f}.")
    rows: list[Row] = []
    try:
        with JobProgress(console) as progress:
            for job in jobs:
                name = f"sequence {job.sequence}, CP {job.context}, TP {job.tensor}: "
                folder = out / f"{job.sequence}-cp{job.context}-tp{job.tensor}"
                rows.append(_row(job, folder, rounds, ring_steps, progress, name, gpus=gpus is not None))
    finally:
        if rows:
            header = {
                **machine,
                "gpus": None if gpus is None else dataclasses.asdict(gpus),
                "load_after": list(os.getloadavg()),
                "job": dataclasses.asdict(rows[0].config),
            }
            save_json(out / "compare.json", header, rows)
            compare_report.save_picture(out / "compare.png", f"{what}, on {where}, {machine['date'][:10]}", rows)
            console.print(compare_report.table(rows))
            console.print(compare_report.means_table(rows))
            console.print(compare_report.ring_table(rows))
            if gpus is None and max(row.config.devices for row in rows) > machine["cores"]:
                console.print(
                    "More ranks than cores: the split into transfers and waiting is uncertain (docs/training.md)."
                )
            console.print(f"Load {machine['load'][0]:.1f} before, {os.getloadavg()[0]:.1f} after.")
            console.print(f"Under {out}: compare.json, compare.png, and a folder for each run.", soft_wrap=True)
    return rows


def _row(
    job: TrainConfig, folder: Path, rounds: int, ring_steps: int, progress: JobProgress, name: str, *, gpus: bool
) -> Row:
    """Runs one job in all variants."""
    runs = run_in_turns(job, folder, TURN, rounds, progress, name, gpus=gpus)
    longer = dataclasses.replace(job, steps=MEASURED[0] + ring_steps)
    taken_apart = run_in_turns(longer, folder, RING_TURN, rounds, progress, name, gpus=gpus)
    ablations = {
        ring: {
            variant: [
                read_records(run_folder(folder, variant, repeat) / ring.log_name) for repeat in range(1, rounds + 1)
            ]
            for variant in RING_TURN
        }
        for ring in (Ring.WAITING, Ring.SILENT)
    }
    return Row(job, {**runs, **taken_apart}, ablations)
