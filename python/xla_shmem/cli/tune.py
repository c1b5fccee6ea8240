"""``xla-shmem tune``."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from xla_shmem.bench.plan import DTYPES, Plan, chosen_ops
from xla_shmem.cli.bench_options import bench_job_options, cell_options, timing_options
from xla_shmem.cli.job_options import ending_on_signals, json_option
from xla_shmem.cli.list_options import ListOf, list_option
from xla_shmem.errors import JobError
from xla_shmem.gpu.chosen_gpus import chosen_gpus
from xla_shmem.options import resolve
from xla_shmem.options import tuning_table as tables


@click.command("tune")
@bench_job_options
@click.option("--groups", metavar="LIST", help="PEs of each group, a list.  [default: powers of two, and all PEs]")
@cell_options(ops="all", largest="32M", factor=4)
@list_option(
    "-d",
    "--dtype",
    "dtypes",
    of=ListOf(tuple(DTYPES)),
    metavar="LIST",
    default=("f32",),
    words=f"Element type, a list: {', '.join(DTYPES)}.",
)
@timing_options
@click.option("--show", is_flag=True, help="Measure nothing; print what the table decides.")
@click.option(
    "--verify", is_flag=True, help="Measure stock, upstream and tuned with the table; exit code 1 if tuned is slower."
)
@click.option(
    "--tuning",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Table of profile tuned, for --show and --verify.  [default: XLA_SHMEM_TUNING, or the user's]",
)
@json_option
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write: the table measured, or the findings of --verify.  "
    "[default for the table: XLA_SHMEM_TUNING, or the user's]",
)
def tune_command(
    platform: str,
    num_ranks: int,
    step_factor: int,
    groups: str | None,
    ops: tuple[str, ...],
    dtypes: tuple[str, ...],
    show: bool,
    verify: bool,
    tuning: Path | None,
    as_json: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Measure which backend is faster on this machine, for XLA_SHMEM_PROFILE=tuned.

    DEFAULT and SHMEM take turns at every op, group size, element type and size, between processes of this host,
    as in `xla-shmem bench`. With --launcher they run on several hosts, and a group that crosses hosts is measured
    divided: SHMEM within each host, DEFAULT between them. The table holds medians and their confidence intervals.
    Between two sizes the profile interpolates. A collective stays on the default backend where the intervals overlap,
    or nothing was measured. A table of another machine, other versions or other settings of the transport is refused.

    After Ctrl-C, the lines measured so far are in FILE.partial beside the table; no job reads that file.

    \b
    Examples:
      xla-shmem tune -n 4
      xla-shmem tune -n 8 --launcher 'srun -N 2 -n 8'
      xla-shmem tune -n 4 --groups 4 --op all-reduce,permute -d f32,f16 --output tuning.json
      xla-shmem tune --show
      xla-shmem tune -n 4 --verify -f 2 --output findings.json
    """
    from xla_shmem.tune.measuring import group_sizes, plans

    if show and verify:
        raise click.UsageError("--show and --verify do different things: give one of them.")
    if show and output is not None:
        raise click.UsageError("--show writes no file; name the table to read with --tuning.")
    if tuning is not None and not show and not verify:
        raise click.UsageError("--tuning names a table to read, for --show or --verify; to write one, give --output.")
    default = Path(os.environ.get("XLA_SHMEM_TUNING") or tables.default_path(os.environ))
    if show:
        _show(tuning or default, as_json)
        return
    gpus = chosen_gpus(platform, num_ranks, os.environ)
    plan = Plan(processes=num_ranks, factor=step_factor, ops=chosen_ops(ops), gpus=gpus, **options)
    every = plans(plan, group_sizes(groups, plan.pes), dtypes)
    with ending_on_signals(lambda: ""):
        if verify:
            _verify(every, tuning or default, output, as_json)
        else:
            _measure(every, output or default, as_json)


def _show(path: Path, as_json: bool) -> None:
    from xla_shmem.tune import printed_rows

    # Read as the profile reads it, except that tables of other machines are accepted.
    options = resolve(overrides={"profile": "tuned", "tuning": path}, any_machine=True)
    assert options.tuning is not None
    if as_json:
        click.echo(tables.as_json(options.tuning, complete=True), nl=False)
    else:
        decided = printed_rows.decided_lines(options, os.environ)
        click.echo("\n".join([printed_rows.measured_line(options.tuning), *decided]))


def _measure(every: Sequence[Plan], path: Path, as_json: bool) -> None:
    from xla_shmem import machine
    from xla_shmem.options import fingerprint
    from xla_shmem.tune import printed_rows
    from xla_shmem.tune.measuring import fingerprint_of_ranks, measure_rows, measuring_jobs

    say = functools.partial(click.echo, err=as_json)  # stdout holds nothing but the JSON
    form = printed_rows.columns(sys.stderr if as_json else sys.stdout)
    settings = vars(resolve(overrides={"profile": "domain"}))
    facts: dict[str, Any] = {**machine.describe_machine(), "plan": dataclasses.asdict(every[0])}
    platform = every[0].platform
    measured_on = fingerprint.fingerprint(settings, platform)
    partial = path.with_name(f"{path.name}.partial")
    rows: list[tables.TunedRow] = []
    complete = False

    def table() -> tables.Table:
        measured = {**facts, "load_after": list(os.getloadavg())}
        return tables.Table(platform, measured_on, measured, tuple(rows))

    say("\n".join(f"# {plan}" for plan in every))
    try:
        with measuring_jobs(every[0]) as running:
            if every[0].launcher:
                measured_on = fingerprint_of_ranks(running["shmem"])
                facts["hosts"] = running["shmem"].ranks_of_hosts()
                say("# ranks: " + ", ".join(f"{ranks} on {host}" for host, ranks in facts["hosts"].items()))
            say(form.heading())
            for row, tuned in measure_rows(every, running):
                if wrong := row.times["shmem"].wrong:
                    raise JobError(f"SHMEM: {wrong} elements of {row.cell} are wrong; no table is written.")
                if tuned is None:
                    say(printed_rows.left_out(row))
                else:
                    rows.append(tuned)
                    say(printed_rows.row_line(tuned, form))
        complete = True
    finally:
        if rows and not complete:
            tables.save(partial, table(), complete=False)
    if not rows:
        raise JobError("SHMEM ran none of these collectives; the reasons are above.")
    tables.save(path, table(), complete=True)
    partial.unlink(missing_ok=True)
    if as_json:
        click.echo(tables.as_json(table(), complete=True), nl=False)
    named = "" if path == tables.default_path(os.environ) else f" XLA_SHMEM_TUNING={path}"
    decided = printed_rows.decided_lines(dataclasses.replace(resolve(), tuning=table()), os.environ)
    say("\n".join([*decided, f"# written; to use it: XLA_SHMEM_PROFILE=tuned{named}"]))


def _verify(every: Sequence[Plan], path: Path, output: Path | None, as_json: bool) -> None:
    from xla_shmem import machine
    from xla_shmem.bench.results import save_json
    from xla_shmem.tune import printed_rows, verify

    say = functools.partial(click.echo, err=as_json)  # stdout holds nothing but the JSON
    form = verify.columns(sys.stderr if as_json else sys.stdout)
    # Ranks of a launcher have hosts of their own.
    options = resolve(overrides={"profile": "tuned", "tuning": path}, any_machine=bool(every[0].launcher))
    assert options.tuning is not None
    facts = machine.describe_machine()
    comparisons: list[verify.Comparison] = []
    say("\n".join([printed_rows.measured_line(options.tuning), *(f"# {plan}" for plan in every), form.heading()]))
    try:
        for comparison in verify.compare(every, path, options):
            comparisons.append(comparison)
            say(comparison.line(form))
    finally:
        if comparisons:
            found = {**facts, "load_after": list(os.getloadavg()), "plan": dataclasses.asdict(every[0])}
            found["rows"] = [dataclasses.asdict(comparison) for comparison in comparisons]
            if output is not None:
                save_json(output, found)
            if as_json:
                click.echo(json.dumps(found, indent=1))
    say("\n".join(verify.summary(comparisons)))
    if slow := verify.slower(comparisons):
        raise JobError(f"tuned is slower than the better of stock and upstream in {len(slow)} lines.")
