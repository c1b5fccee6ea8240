"""``xla-shmem compare``."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import click

from xla_shmem.compare import report as compare_report
from xla_shmem.compare.plan import plan, read_list
from xla_shmem.compare.results import RING_TURN, TURN, Row, save_json
from xla_shmem.compare.ring_kinds import Ring
from xla_shmem.compare.side_by_side import run_folder, run_in_turns
from xla_shmem.console import report_console
from xla_shmem.machine import describe_machine
from xla_shmem.train.config import ConfigError, TrainConfig
from xla_shmem.train.config_options import config_options, from_options
from xla_shmem.train.job_run import RunError
from xla_shmem.train.needed import TRAIN_PACKAGES, check_packages
from xla_shmem.train.progress import JobProgress
from xla_shmem.train.step_log import read_records
from xla_shmem.train.step_times import MEASURED

#: Options of `xla-shmem train` that are lists here, or make no sense.
_LEFT_OUT = ("sequence", "context", "tensor", "out", "checkpoint_every", "checkpoints_kept", "resume")

#: Up to the last measured step.
_STEPS = 21

#: Exit code after Ctrl-C: 128 plus SIGINT.
_INTERRUPTED = 130


@click.command("compare")
@config_options(leave_out=_LEFT_OUT)
@click.option("--sequence", "--seq", "sequences", default="1024,2048,4096", show_default=True, help="Tokens, a list.")
@click.option("--context", "contexts", default="2,4", show_default=True, help="Degrees of context parallelism, a list.")
@click.option("--tensor", "tensors", default="1", show_default=True, help="Degrees of tensor parallelism, a list.")
@click.option("--repeats", type=click.IntRange(min=1), default=1, show_default=True, help="Turns of every variant.")
@click.option(
    "--ring-steps",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="Steps of each kind, with the ring's transfers and without, that count in a turn.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/compare"),
    show_default=True,
    help="Folder for everything measured (compare.json), the picture (compare.png), and every run's log.",
)
def compare_command(
    config: Path | None,
    sequences: str,
    contexts: str,
    tensors: str,
    repeats: int,
    ring_steps: int,
    out: Path,
    **options: Any,
) -> None:
    """Time a training job with SHMEM collectives and with the default backend, at several lengths and meshes.

    Prints the columns of Table 2 of NVIDIA's write-up, and what the ring adds to a step: a step that sends less one
    whose ring sends nothing, right before or after; and how much of that the transfers are, and how much that a rank
    waits for a slower one. The variants take turns, on CPU processes of this machine.
    Losses of both backends have to agree; the exit code is 1 if they do not.

    \b
    Examples:
      xla-shmem compare --preset tiny --seq 1024,4096 --context 2,4
      xla-shmem compare --context 2 --tensor 1,2 --repeats 5
    """
    job = from_options(config, options, defaults={"steps": _STEPS, "context": 2})
    try:
        check_packages("compare", *TRAIN_PACKAGES)
        lengths, rings = read_list("sequence", sequences), read_list("context", contexts)
        jobs = plan(job, lengths, rings, read_list("tensor", tensors))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        rows = _run(jobs, out.resolve(), repeats, ring_steps)
    except RunError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo(f"\nStopped; all ranks have ended. What was measured until then is under {out}.", err=True)
        raise SystemExit(_INTERRUPTED) from None
    if problems := [problem for row in rows if (problem := row.problem()) is not None]:
        raise click.ClickException("\n".join(problems))


def _run(jobs: list[TrainConfig], out: Path, repeats: int, ring_steps: int) -> list[Row]:
    """Runs all jobs; prints and saves what was measured, also when somebody has seen enough."""
    console = report_console()
    machine = describe_machine()
    where = f"{machine['cores']} cores, {machine['cpu']}"
    what = f"{jobs[0].preset}, {repeats} turn{'s' if repeats > 1 else ''} of each variant"
    console.print(f"{what}, on {where}, load {machine['load'][0]:.1f}.")
    rows: list[Row] = []
    try:
        with JobProgress(console) as progress:
            for job in jobs:
                name = f"sequence {job.sequence}, CP {job.context}, TP {job.tensor}: "
                folder = out / f"{job.sequence}-cp{job.context}-tp{job.tensor}"
                rows.append(_row(job, folder, repeats, ring_steps, progress, name))
    finally:
        if rows:
            header = {**machine, "load_after": list(os.getloadavg()), "job": dataclasses.asdict(rows[0].config)}
            save_json(out / "compare.json", header, rows)
            compare_report.save_picture(out / "compare.png", f"{what}, on {where}, {machine['date'][:10]}", rows)
            console.print(compare_report.table(rows))
            console.print(compare_report.ring_table(rows))
            if max(row.config.devices for row in rows) > machine["cores"]:
                console.print(
                    "More ranks than cores: what of it the transfers are cannot be told well (docs/training.md)."
                )
            console.print(f"Load {machine['load'][0]:.1f} before, {os.getloadavg()[0]:.1f} after.")
            console.print(f"Under {out}: compare.json, compare.png, and a folder for each run.", soft_wrap=True)
    return rows


def _row(job: TrainConfig, folder: Path, repeats: int, ring_steps: int, progress: JobProgress, name: str) -> Row:
    """Runs one job in all variants."""
    runs = run_in_turns(job, folder, TURN, repeats, progress, name)
    longer = dataclasses.replace(job, steps=MEASURED[0] + ring_steps)
    taken_apart = run_in_turns(longer, folder, RING_TURN, repeats, progress, name)
    twins = {
        ring: {
            variant: [
                read_records(run_folder(folder, variant, repeat) / ring.log_name) for repeat in range(1, repeats + 1)
            ]
            for variant in RING_TURN
        }
        for ring in (Ring.WAITING, Ring.SILENT)
    }
    return Row(job, {**runs, **taken_apart}, twins)
