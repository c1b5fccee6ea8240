"""``xla-shmem bench``."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from xla_shmem.bench.plan import DTYPES, REDUCTIONS, Plan, chosen_ops, chosen_rivals
from xla_shmem.bench.variants import VARIANTS
from xla_shmem.cli.bench_options import bench_job_options, cell_options, size, timing_options
from xla_shmem.cli.job_options import ending_on_signals, json_option
from xla_shmem.cli.list_options import completions
from xla_shmem.errors import BenchError, JobError
from xla_shmem.gpu.chosen_gpus import chosen_gpus
from xla_shmem.options.table import TABLE

_DEFAULTS = Plan()

#: What a shell offers behind `--vs`.
_RIVALS = (*(variant.name for variant in VARIANTS[1:]), "none", *(f"{option.env}=" for option in TABLE.values()))


@click.command("bench")
@bench_job_options
@cell_options(ops="all-reduce", largest="128M", factor=2)
@click.option("-d", "--dtype", type=click.Choice(list(DTYPES)), metavar="TYPE", default="f32", show_default=True,
              help=f"Element type: {', '.join(DTYPES)}.")  # fmt: skip
@click.option(
    "-o",
    "--reduction",
    type=click.Choice(REDUCTIONS["all-reduce"]),
    default="sum",
    show_default=True,
    help="Computation of collectives that reduce.",
)
@timing_options
@click.option(
    "--check/--no-check",
    "-c/-C",
    default=True,
    show_default=True,
    help="Compare the results with NumPy's, and count wrong elements in column #wrong.",
)
@click.option(
    "--vs",
    "rivals",
    default=("stock",),
    show_default=True,
    multiple=True,
    metavar="LIST",
    shell_complete=lambda ctx, param, begun: completions(_RIVALS, begun),
    help="What to compare with, a list; or none. "
    + " ".join(f"{one.name}: {one.what}." for one in VARIANTS[1:])
    + " NAME=VALUE: SHMEM with that option.",
)
@click.option(
    "--groups", "group", type=click.IntRange(min=2), metavar="K", help="PEs of each group.  [default: all PEs]"
)
@click.option(
    "--in-place/--out-of-place",
    default=False,
    show_default=True,
    help="Each result is the operand of the next collective, or has a buffer of its own.",
)
@click.option(
    "--misalign",
    type=size(0),
    default="0",
    show_default=True,
    metavar="SIZE",
    help="Lengthen every piece by this many bytes, so that pieces begin and end between cache lines.",
)
@click.option(
    "--mpirun",
    default=_DEFAULTS.mpirun,
    show_default=True,
    metavar="COMMAND",
    help="Command that starts an MPI job, with options.",
)
@json_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write: everything measured, as JSON.",
)
@click.option(
    "--png",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Draw times and bandwidths.",
)
def bench_command(
    platform: str,
    num_ranks: int,
    step_factor: int,
    group: int | None,
    ops: tuple[str, ...],
    rivals: tuple[str, ...],
    as_json: bool,
    output: Path | None,
    picture: Path | None,
    **options: Any,
) -> None:
    """Time collectives between processes of this host: on SHMEM, on stock JAX (gloo or NCCL), over MPI.

    The variants take turns at every size. A program runs the collective many times in a loop. The table shows the
    median and the 99th percentile of the programs' means, less the time that the program takes without collectives.
    A size is that of the larger buffer of a PE. algbw and busbw are defined as in nccl-tests. The limit is the time
    of the copies alone, by a memcpy that is measured between the programs (CPU only).

    --vs mpi needs an MPI, and MPITRAMPOLINE_LIB set to the library of MPIwrapper.

    The exit code is 1 if an element is wrong.

    \b
    Examples:
      xla-shmem bench -n 4 -b 8 -e 128M -f 4 --op all
      xla-shmem bench --op permute,all-reduce --vs stock,mpi --output bench.json --png bench.png
      xla-shmem bench -n 4 --groups 2 -d bf16 --misalign 2 --op all-gather
      xla-shmem bench -n 4 --vs stock --vs XLA_SHMEM_SPIN_US=0,XLA_SHMEM_STATS=1
      xla-shmem bench -n 8 --launcher 'srun -N 2 -n 8' --op all --vs stock,XLA_SHMEM_HIERARCHICAL=off
    """
    gpus = chosen_gpus(platform, num_ranks, os.environ)
    platform = "cpu" if gpus is None else "gpu"
    plan = Plan(
        processes=num_ranks,
        factor=step_factor,
        group=group,
        ops=chosen_ops(ops),
        rivals=chosen_rivals(rivals, platform),
        gpus=gpus,
        **options,
    )
    plan.validate()
    if picture is not None and importlib.util.find_spec("matplotlib") is None:
        raise BenchError("--png needs matplotlib: pip install 'xla-shmem[bench]'.")
    with ending_on_signals(lambda: ""):
        wrong = _run(plan, output, picture, as_json)
    if wrong:
        raise JobError(f"{wrong} elements are wrong.")


def _run(plan: Plan, output: Path | None, picture_file: Path | None, as_json: bool) -> int:
    """Measures, prints and saves; returns the number of wrong elements."""
    from xla_shmem import machine
    from xla_shmem.bench import jobs, measure, picture, printed_table, results, variants

    say = functools.partial(click.echo, err=as_json)  # stdout holds nothing but the JSON
    form = printed_table.columns(sys.stderr if as_json else sys.stdout, plan.rivals)
    facts = machine.describe_machine()
    rows: list[results.Row] = []
    remarks: set[str] = set()
    mpi = jobs.mpi_settings(plan)
    missing = plan.obstacles()
    notes = [*mpi, *variants.notes(plan.rivals, missing)]
    try:
        with jobs.running_jobs(plan) as running:
            if plan.launcher:
                facts["hosts"] = running["shmem"].ranks_of_hosts()
                notes.append("ranks: " + ", ".join(f"{ranks} on {host}" for host, ranks in facts["hosts"].items()))
            say("\n".join(printed_table.heading(plan, facts, notes, form)))
            for row in measure.measure(plan, running, missing):
                rows.append(row)
                for line in printed_table.row_lines(row, remarks, form):
                    say(line)
    finally:
        # Rows that were measured are kept, also after a failure or Ctrl-C.
        if rows:
            header = {**facts, "load_after": list(os.getloadavg()), "plan": dataclasses.asdict(plan), "mpi": mpi}
            found = results.report(header, rows)
            if output is not None:
                results.save_json(output, found)
            if as_json:
                click.echo(json.dumps(found, indent=1))
        if picture_file is not None and any(times.us for row in rows for times in row.times.values()):
            picture.save_picture(picture_file, _title(plan, facts), rows)
    if not any(row.times["shmem"].us for row in rows):
        raise JobError("SHMEM ran none of these collectives; the reasons are in the table.")
    return results.total_wrong(rows)


def _title(plan: Plan, facts: dict[str, Any]) -> str:
    machine = f"{facts['cores']} cores, {facts['cpu']}" if plan.gpus is None else str(plan.gpus)
    return (
        f"{plan}, on {machine}\n"
        f"{facts['date'][:10]}, xla-shmem {facts['versions']['xla-shmem']}, jax {facts['versions']['jax']}"
    )
