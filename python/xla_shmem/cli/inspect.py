"""``xla-shmem inspect``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import RenderableType

from xla_shmem.cli.decision_options import decision_options
from xla_shmem.cli.errors import one_sentence_errors
from xla_shmem.hlo.collective_report import ModuleReport, print_json, print_tables
from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.inspect.modules import InspectedModule, read_inspected
from xla_shmem.inspect.overlap import overlap_as_json, overlap_table
from xla_shmem.inspect.selection import Selection, read_selection
from xla_shmem.inspect.totals import count_totals, totals_table


@click.command("inspect")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--op", "only_ops", multiple=True, metavar="OP", help="Only this op, such as all-reduce; repeatable.")
@click.option(
    "--backend", type=click.Choice(["NVSHMEM", "DEFAULT"], case_sensitive=False), help="Only what runs on it."
)
@click.option("--min-bytes", metavar="SIZE", help="Only results of at least this size, such as 64KiB.")
@click.option("--loop/--no-loop", "in_loop", default=None, help="Only inside loops, or only outside.")
@click.option("--overlap", is_flag=True, help="Add what XLA scheduled between the start and the done of each pair.")
@click.option("--explain", "name", metavar="NAME", help="Print what each rule saw of one collective.")
@click.option("--diff", nargs=2, metavar="A B", help="Compare the collectives of two dumps.")
@click.option("--html", "page", metavar="FILE", help="Write one self-contained page, to be opened in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@decision_options
@one_sentence_errors
def inspect_command(
    paths: tuple[str, ...],
    only_ops: tuple[str, ...],
    backend: str | None,
    min_bytes: str | None,
    in_loop: bool | None,
    overlap: bool,
    name: str | None,
    diff: tuple[str, str] | None,
    page: str | None,
    as_json: bool,
    settings: DecisionSettings,
) -> None:
    """Show every collective of compiled modules: backend, rule and reason.

    PATH is a directory written by --xla_dump_to, HLO text, a serialized HloModuleProto or HloProto (.pb), any
    of them gzipped, or - for standard input. The table shows what the module says, and nothing is decided here:
    modules that xla-shmem compiled carry rule and reason; modules of stock XLA carry the backend only.

    The options of the rules and of the layout of devices (--profile to --num-devices, as for `xla-shmem assign`) are
    for --explain, which asks the rules again, and for the map of groups in --html.

    --diff ends with exit code 0 whether the dumps differ or not.

    \b
    Examples:
      XLA_FLAGS=--xla_dump_to=/tmp/dump python train.py && xla-shmem inspect /tmp/dump
      xla-shmem inspect /tmp/dump --op all-reduce --backend DEFAULT --min-bytes 1MiB
      xla-shmem inspect /tmp/dump --explain all-reduce.67 --devices-per-process 4
      xla-shmem inspect --diff /tmp/dump-0.10 /tmp/dump-0.11
      xla-shmem inspect /tmp/dump --html report.html
      xla-shmem inspect --json module.hlo.pb | jq '.[] | select(.backend == "DEFAULT")'
    """
    selection = read_selection(only_ops, backend and backend.upper(), min_bytes, in_loop)
    if diff is not None:
        if paths or name or page:
            raise click.UsageError("--diff takes its two dumps itself: no PATH, --explain or --html beside it.")
        _print_difference(diff, selection, as_json)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH...': give a dump, or two with --diff.")
    modules = [module for path in paths for module in read_inspected(path, selection)]
    if page is not None:
        from xla_shmem.inspect.page import write_page

        write_page(Path(page), modules, settings)
        click.echo(f"Wrote {page}.")
    elif name is not None:
        _print_explanations(modules, name, settings, as_json)
    elif as_json:
        print_json(_with_overlap(modules) if overlap else [module.report() for module in modules])
    else:
        _print_tables(modules, overlap)


def _print_tables(modules: list[InspectedModule], overlap: bool) -> None:
    reports = [module.report() for module in modules]
    by_report = {id(report): module for report, module in zip(reports, modules, strict=True)}

    def below(report: ModuleReport) -> Iterable[RenderableType]:
        yield totals_table(count_totals(report.records))
        if overlap:
            yield overlap_table(report.records, by_report[id(report)].overlaps)

    print_tables(reports, below)


def _with_overlap(modules: list[InspectedModule]) -> list[ModuleReport]:
    return [
        ModuleReport(
            module.input.source,
            module.input.name,
            [
                {**record, "overlap": overlap_as_json(module.overlaps.get((record["computation"], record["name"])))}
                for record in module.records
            ],
        )
        for module in modules
    ]


def _print_explanations(modules: list[InspectedModule], name: str, settings: DecisionSettings, as_json: bool) -> None:
    from xla_shmem.console import report_console
    from xla_shmem.inspect.explanation import describe_explanation, explain, explanation_as_json

    found = explain(modules, name, settings)
    if as_json:
        click.echo(json.dumps([explanation_as_json(*one) for one in found], indent=2))
        return
    console = report_console()
    for one in found:
        console.print(describe_explanation(*one))


def _print_difference(paths: tuple[str, str], selection: Selection, as_json: bool) -> None:
    from xla_shmem.inspect.difference import compare
    from xla_shmem.inspect.difference_report import print_difference, print_difference_json

    before, after = (read_inspected(path, selection) for path in paths)
    (print_difference_json if as_json else print_difference)(compare(before, after))
