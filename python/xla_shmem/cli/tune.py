"""``xla-shmem tune``."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from xla_shmem.bench.plan import DTYPES, Plan, chosen_ops
from xla_shmem.cli.bench_options import INTERRUPTED, bind_option, cell_options, job_options, timing_options
from xla_shmem.cli.errors import one_sentence_errors
from xla_shmem.options import resolve
from xla_shmem.options import tuning_table as tables


@click.command("tune")
@job_options
@click.option("--groups", metavar="LIST", help="Groups of so many PEs, a list.  [default: powers of two, and all PEs]")
@cell_options(ops="all", largest="32M", factor=4)
@click.option(
    "-d",
    "--dtype",
    "dtypes",
    type=click.Choice(list(DTYPES)),
    multiple=True,
    default=("f32",),
    show_default=True,
    help="Element type; may be given several times.",
)
@timing_options
@bind_option
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The table.  [default: XLA_SHMEM_TUNING, or where profile tuned looks]",
)
@click.option("--show", is_flag=True, help="Measure nothing; print what the table decides.")
@click.option(
    "--verify", is_flag=True, help="Measure stock, upstream and tuned with the table; exit code 1 if tuned is slower."
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write what --verify found.")
@one_sentence_errors
def tune_command(
    groups: str | None,
    ops: tuple[str, ...],
    dtypes: tuple[str, ...],
    out: Path | None,
    show: bool,
    verify: bool,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Measure which backend is faster on this machine, for XLA_SHMEM_PROFILE=tuned.

    Default and SHMEM take turns at every op, group size, element type and size, between CPU processes of this host, as
    `xla-shmem bench` does it. The table holds medians, and where they may lie. Between two sizes the profile
    interpolates; where no difference can be told, or nothing was measured, a collective stays on the default backend.
    A table of another machine, other versions or other settings of the transport is refused.

    Stopped by Ctrl-C, it keeps what was measured beside the table, as FILE.partial, which no job takes.

    \b
    Examples:
      xla-shmem tune -p 4
      xla-shmem tune -p 4 --groups 4 --op all-reduce -d f32 -d f16 -o tuning.json
      xla-shmem tune --show
      xla-shmem tune -p 4 --verify -f 2
    """
    from xla_shmem.tune.measuring import group_sizes, plans

    if show and verify:
        raise click.UsageError("--show measures nothing, --verify does: give one of them.")
    path = out or Path(os.environ.get("XLA_SHMEM_TUNING") or tables.default_path(os.environ))
    if show:
        _show(path)
        return
    plan = Plan(
        min_bytes=options.pop("minbytes"),
        max_bytes=options.pop("maxbytes"),
        factor=options.pop("stepfactor"),
        ops=chosen_ops(ops),
        **options,
    )
    every = plans(plan, group_sizes(groups, plan.pes), dtypes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _verify(every, path, json_file) if verify else _measure(every, path)
    except KeyboardInterrupt:
        click.echo("\nStopped; all ranks have ended.", err=True)
        raise SystemExit(INTERRUPTED) from None


def _show(path: Path) -> None:
    from xla_shmem.tune import report

    # As the profile reads it, but for the machine: a foreign table can be looked at.
    table = resolve(overrides={"profile": "tuned", "tuning": path}, any_machine=True).tuning
    assert table is not None
    click.echo("\n".join([report.measured_line(table), *report.crossover_lines(table)]))


def _measure(every: Sequence[Plan], path: Path) -> None:
    from xla_shmem import machine
    from xla_shmem.bench.jobs import JobFailed
    from xla_shmem.options import fingerprint
    from xla_shmem.tune import report
    from xla_shmem.tune.measuring import measure_rows

    settings = vars(resolve(overrides={"profile": "domain"}))
    facts = {**machine.describe_machine(), "plan": dataclasses.asdict(every[0])}
    partial = path.with_name(f"{path.name}.partial")
    rows: list[tables.TunedRow] = []
    complete = False

    def table() -> tables.Table:
        measured = {**facts, "load_after": list(os.getloadavg())}
        return tables.Table("cpu", fingerprint.fingerprint(settings), measured, tuple(rows))

    click.echo("\n".join([*(f"# {plan}" for plan in every), report.heading()]))
    try:
        for row, tuned in measure_rows(every):
            shmem = row.times["shmem"]
            if shmem.wrong:
                raise click.ClickException(
                    f"SHMEM: {shmem.wrong} elements of {row.cell} are wrong; no table is written."
                )
            if tuned is None:
                click.echo(report.left_out(row.cell, shmem.reason))
            else:
                rows.append(tuned)
                click.echo(report.row_line(tuned))
        complete = True
    except JobFailed as error:
        raise click.ClickException(str(error)) from None
    finally:
        if rows and not complete:
            tables.save(partial, table(), complete=False)
    if not rows:
        raise click.ClickException("SHMEM ran none of these collectives; the reasons are above.")
    tables.save(path, table(), complete=True)
    partial.unlink(missing_ok=True)
    named = "" if path == tables.default_path(os.environ) else f" XLA_SHMEM_TUNING={path}"
    click.echo("\n".join([*report.crossover_lines(table()), f"# written; to use it: XLA_SHMEM_PROFILE=tuned{named}"]))


def _verify(every: Sequence[Plan], path: Path, json_file: Path | None) -> None:
    from xla_shmem import machine
    from xla_shmem.bench.jobs import JobFailed
    from xla_shmem.tune import report, verify

    table = resolve(overrides={"profile": "tuned", "tuning": path}).tuning
    assert table is not None
    facts = machine.describe_machine()
    comparisons: list[verify.Comparison] = []
    click.echo("\n".join([report.measured_line(table), *(f"# {plan}" for plan in every), verify.heading()]))
    try:
        for comparison in verify.compare(every, path):
            comparisons.append(comparison)
            click.echo(comparison.line())
    except JobFailed as error:
        raise click.ClickException(str(error)) from None
    finally:
        if comparisons and json_file is not None:
            found = {**facts, "load_after": list(os.getloadavg()), "plan": dataclasses.asdict(every[0])}
            found["rows"] = [dataclasses.asdict(comparison) for comparison in comparisons]
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(json.dumps(found, indent=1) + "\n")
    click.echo("\n".join(verify.summary(comparisons)))
    if slow := verify.slower(comparisons):
        raise click.ClickException(f"tuned is slower than the better of stock and upstream in {len(slow)} lines.")
