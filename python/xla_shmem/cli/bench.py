"""``xla-shmem bench``."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import click

from xla_shmem.bench.plan import DTYPES, REDUCTIONS, BenchError, Plan, chosen_ops, chosen_rivals
from xla_shmem.cli.bench_options import INTERRUPTED, bind_option, cell_options, job_options, size, timing_options
from xla_shmem.cli.errors import one_sentence_errors

_DEFAULTS = Plan()


@click.command("bench")
@job_options
@cell_options(ops="all-reduce", largest="128M", factor=2)
@click.option("-d", "--dtype", type=click.Choice(list(DTYPES)), default="f32", show_default=True, help="Element type.")
@click.option(
    "-o",
    "--reduction",
    type=click.Choice(REDUCTIONS["all-reduce"]),
    default="sum",
    show_default=True,
    help="What reducing operations compute.",
)
@timing_options
@click.option(
    "-c/-C", "--check/--no-check", default=True, show_default="check", help="Compare the results with NumPy's: #wrong."
)
@click.option(
    "--vs", default="stock", show_default=True, metavar="LIST", help="What to compare with: stock, mpi, both, or none."
)
@click.option("--groups", "group", type=click.IntRange(min=2), metavar="K", help="Groups of K PEs.  [default: all]")
@click.option(
    "--in-place/--out-of-place",
    default=False,
    show_default=True,
    help="Whether a result is the next operand, or has a buffer of its own.",
)
@click.option(
    "--misalign",
    callback=size(0),
    default="0",
    metavar="BYTES",
    help="Lengthen every piece by so many bytes, so that pieces begin and end between cache lines.",
)
@bind_option
@click.option(
    "--mpirun",
    default=_DEFAULTS.mpirun,
    show_default=True,
    metavar="COMMAND",
    help="How MPI starts jobs, with options.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything measured.")
@click.option("--png", "png_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw time and bandwidth.")
@one_sentence_errors
def bench_command(json_file: Path | None, png_file: Path | None, ops: tuple[str, ...], vs: str, **options: Any) -> None:
    """Time collectives between processes of this host: on SHMEM, on stock JAX (gloo), over MPI.

    The variants take turns at every size. One program runs the collective over and over in a loop; the table shows
    median and 99th percentile of the programs' means, less what the program takes without collectives. Sizes are
    those of the larger buffer of a PE; algbw and busbw are nccl-tests'. The limit is the time that the copies alone
    take, by a memcpy that is measured in between.

    --vs mpi needs an MPI and MPITRAMPOLINE_LIB, which points at MPIwrapper's library.

    The exit code is 1 if an element is wrong.

    \b
    Examples:
      xla-shmem bench -p 4 -b 8 -e 128M -f 4 --op all
      xla-shmem bench --op permute --op all-reduce --vs stock,mpi --json bench.json --png bench.png
      xla-shmem bench -p 4 --groups 2 -d bf16 --misalign 2 --op all-gather
    """
    plan = Plan(
        min_bytes=options.pop("minbytes"),
        max_bytes=options.pop("maxbytes"),
        factor=options.pop("stepfactor"),
        ops=chosen_ops(ops),
        rivals=chosen_rivals(vs),
        **options,
    )
    plan.validate()
    if png_file is not None and importlib.util.find_spec("matplotlib") is None:
        raise BenchError("--png needs matplotlib: pip install 'xla-shmem[bench]'.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        wrong = _run(plan, json_file, png_file)
    except KeyboardInterrupt:
        click.echo("\nStopped; all ranks have ended.", err=True)
        raise SystemExit(INTERRUPTED) from None
    if wrong:
        raise click.ClickException(f"{wrong} elements are wrong.")


def _run(plan: Plan, json_file: Path | None, png_file: Path | None) -> int:
    """Measures, prints and saves; returns the number of wrong elements."""
    from xla_shmem import machine
    from xla_shmem.bench import jobs, measure, picture, results, table

    facts = machine.describe_machine()
    rows: list[results.Row] = []
    remarks: set[str] = set()
    mpi = jobs.mpi_settings(plan)
    try:
        with jobs.running_jobs(plan) as running:
            click.echo("\n".join(table.heading(plan, facts, mpi)))
            for row in measure.measure(plan, running):
                rows.append(row)
                for line in table.row_lines(row, remarks):
                    click.echo(line)
    except jobs.JobFailed as error:
        raise click.ClickException(str(error)) from None
    finally:
        # What was measured is kept, also when a job fails or somebody has seen enough.
        if rows and json_file is not None:
            header = {**facts, "load_after": list(os.getloadavg()), "plan": dataclasses.asdict(plan), "mpi": mpi}
            results.save_json(json_file, header, rows)
        if png_file is not None and any(times.us for row in rows for times in row.times.values()):
            picture.save_picture(png_file, _title(plan, facts), rows)
    if not any(row.times["shmem"].us for row in rows):
        raise click.ClickException("SHMEM ran none of these collectives; the reasons are in the table.")
    return results.total_wrong(rows)


def _title(plan: Plan, facts: dict[str, Any]) -> str:
    return (
        f"{plan}, on {facts['cores']} cores, {facts['cpu']}\n"
        f"{facts['date'][:10]}, xla-shmem {facts['versions']['xla-shmem']}, jax {facts['versions']['jax']}"
    )
