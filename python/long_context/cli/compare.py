"""`xla-shmem compare`, and `xla-shmem demo`, which compares one small job."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from long_context.cli.config_options import TRAINED, config_options, from_options
from long_context.compare import comparison_picture, comparison_tables
from long_context.compare.compared_jobs import compared_jobs, read_list
from long_context.compare.rows import Row, report_as_json, save_json
from long_context.compare.side_by_side import LOSS_TOLERANCE, dump_folder, run_in_turns
from long_context.train.config import TrainConfig
from long_context.train.progress import JobProgress
from long_context.train.summary import describe, without_pictures
from xla_shmem.backends import PLUGIN, collectives
from xla_shmem.cli.job_options import (
    Command,
    Gpus,
    ending_on_signals,
    gpus_of_ranks,
    json_option,
    platform_option,
    rounds_option,
)
from xla_shmem.console import report_console
from xla_shmem.errors import JobError
from xla_shmem.hlo.collective_report import print_tables
from xla_shmem.machine import describe_machine
from xla_shmem.quantities import plural

#: Fields that are options as for `xla-shmem train`. Three others are lists here.
_FIELDS = frozenset(TRAINED) - {"sequence", "context", "tensor"}

#: Up to the last measured step.
_DEFAULTS = {"steps": 21}


def _list_option(*names: str, default: str, words: str) -> Callable[[Command], Command]:
    return click.option(*names, default=default, show_default=True, metavar="LIST", help=f"{words}, a list.")


def _output_option(command: str) -> Callable[[Command], Command]:
    return click.option(
        "--output",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        default=Path("out", command),
        show_default=True,
        help=f"Where to write: everything measured ({command}.json), the picture ({command}.png), each run's log and "
        "compiled step.",
    )


@click.command("compare")
@config_options(only=_FIELDS, defaults=_DEFAULTS)
@_list_option("--sequence", "--seq", "sequences", default="1024,2048,4096", words="Tokens in a sequence")
@_list_option("--context", "contexts", default="2,4", words="Devices along the mesh axis that splits the sequence")
@_list_option(
    "--tensor", "tensors", default="1", words="Devices along the mesh axis that splits heads and hidden features"
)
@rounds_option(1)
@platform_option()
@_output_option("compare")
@json_option
def compare_command(
    config: Path | None,
    sequences: str,
    contexts: str,
    tensors: str,
    rounds: int,
    platform: str,
    output: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Time a training job with xla-shmem and with JAX's default backend, at several lengths and meshes.

    Prints medians, and means of steps 3 to 20 on rank 0 in the columns of Table 2 of NVIDIA's post. The two take turns,
    on CPU processes or GPUs of this machine. Of a single job it also prints the decisions and the losses.

    The exit code is 1 if the losses of the two backends do not agree.

    \b
    Examples:
      xla-shmem compare --preset tiny --seq 1024,4096 --context 2,4
      xla-shmem compare --context 2 --tensor 1,2 --rounds 5
    """
    job = from_options(config, options, defaults=_DEFAULTS | {"context": 2})
    lengths, rings = read_list("sequence", sequences), read_list("context", contexts)
    jobs = compared_jobs(job, lengths, rings, read_list("tensor", tensors))
    gpus = gpus_of_ranks(platform, max(each.devices for each in jobs))
    _compare("compare", jobs, output, rounds, gpus, as_json=as_json)


@click.command("demo")
@rounds_option(1)
@_output_option("demo")
@json_option
def demo_command(rounds: int, output: Path, as_json: bool) -> None:
    """Train a small Llama with xla-shmem and with stock JAX on four CPU processes, and compare.

    A byte-level decoder learns the sources of Python's standard library, with ring attention. Prints the decision for
    each collective, the losses and the step times. `xla-shmem compare` runs other jobs.
    """
    _compare("demo", [TrainConfig()], output, rounds, None, as_json=as_json)


def _compare(
    name: str, jobs: Sequence[TrainConfig], output: Path, rounds: int, gpus: Gpus | None, *, as_json: bool
) -> None:
    """Runs all jobs; prints and saves what was measured, also before Ctrl-C."""
    console, out = report_console(stderr=as_json), output.resolve()
    machine = describe_machine()
    where = f"{machine['cores']} cores, {machine['cpu']}" if gpus is None else str(gpus)
    what = describe(jobs[0]) if len(jobs) == 1 else jobs[0].preset
    title = f"{what}; {plural(rounds, 'turn')} of each backend on {where}"
    console.print(f"{title}, load {machine['load'][0]:.1f}.", soft_wrap=True)
    header = {**machine, "gpus": None if gpus is None else dataclasses.asdict(gpus), "job": dataclasses.asdict(jobs[0])}
    rows: list[Row] = []
    with ending_on_signals(lambda: f"Measurements so far are under {output}."):
        try:
            _run(jobs, out, rounds, gpus, console, rows)
        finally:
            if rows:
                header["load_after"] = list(os.getloadavg())
                save_json(out / f"{name}.json", header, rows)
                if as_json:
                    click.echo(report_as_json(header, rows))
                _report(rows, console)
                missing = without_pictures()
                if not missing:
                    comparison_picture.save_picture(out / f"{name}.png", f"{title}, {machine['date'][:10]}", rows)
                console.print(f"Load {machine['load'][0]:.1f} before, {os.getloadavg()[0]:.1f} after.")
                console.print(f"Under {out}: {name}.json, {missing or f'{name}.png'}, each run's log.", soft_wrap=True)
    if problems := [problem for row in rows if (problem := row.problem()) is not None]:
        raise JobError("\n".join(problems))


def _run(
    jobs: Sequence[TrainConfig], out: Path, rounds: int, gpus: Gpus | None, console: Console, rows: list[Row]
) -> None:
    with JobProgress(console) as progress:
        for job in jobs:
            name = f"sequence {job.sequence}, CP {job.context}, TP {job.tensor}: " if len(jobs) > 1 else ""
            rows.append(Row(job, run_in_turns(job, _folder(out, job), rounds, progress, name, gpus=gpus is not None)))
    if len(jobs) == 1:
        print_tables(collectives(dump_folder(_folder(out, jobs[0]), PLUGIN, 1)), console=console)


def _folder(out: Path, job: TrainConfig) -> Path:
    return out / f"{job.sequence}-cp{job.context}-tp{job.tensor}"


def _report(rows: Sequence[Row], console: Console) -> None:
    if len(rows) == 1:
        console.print(comparison_tables.loss_table(rows[0]))
        largest = max(rows[0].loss_differences())
        console.print(f"Largest relative difference {largest:.1e}; {LOSS_TOLERANCE:.0e} is accepted.\n")
    console.print(comparison_tables.table(rows))
    console.print(comparison_tables.means_table(rows))
