"""``xla-shmem inspect``, and its commands ``decide``, ``explain`` and ``diff``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from xla_shmem.cli.decision_options import LAYOUT_OPTIONS, decision_options, given_options, layout_options
from xla_shmem.cli.one_sentence_errors import one_sentence_errors
from xla_shmem.cli.subcommands import CommandWithSubcommands
from xla_shmem.hlo.collective_report import ModuleReport, print_json, print_tables
from xla_shmem.hlo.files import check_output, read_module, warn_of_unpartitioned, write_module
from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.inspect.modules import InspectedModule, read_inspected
from xla_shmem.inspect.overlap import overlap_as_json, overlap_table
from xla_shmem.inspect.selection import Selection, read_selection
from xla_shmem.inspect.totals import count_totals, totals_table

R = TypeVar("R")

_FILTERS = (
    click.option("--op", "only_ops", multiple=True, metavar="OP", help="Collective, repeatable: show only these ops."),
    click.option(
        "--backend",
        type=click.Choice(["NVSHMEM", "DEFAULT"], case_sensitive=False),
        metavar="[NVSHMEM|DEFAULT]",
        help="Show only collectives that run on it.",
    ),
    click.option(
        "--min-bytes", metavar="SIZE", help="Smallest size, of a result: show only larger ones and equal ones."
    ),
    click.option(
        "--loop/--no-loop", "in_loop", default=None, help="Show only collectives inside loops, or only outside."
    ),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def filters(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the filters to a command and passes them on as ``selection``, a :class:`Selection`."""

    @functools.wraps(command)
    def wrapper(*args: Any, only_ops: tuple[str, ...], **kwargs: Any) -> R:
        backend = kwargs.pop("backend")
        selection = read_selection(
            only_ops, backend and backend.upper(), kwargs.pop("min_bytes"), kwargs.pop("in_loop")
        )
        return command(*args, selection=selection, **kwargs)

    for option in reversed(_FILTERS):
        wrapper = option(wrapper)
    return wrapper


@click.command("decide")
@click.argument("path", metavar="PATH")
@click.option(
    "--lowering",
    type=click.Choice(["auto", "none", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="Target of the rewrite: the platform that the module was compiled for, or another; 'none' writes only the "
    "decisions, as frontend attributes.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="Where to write the rewritten module; .txt or .hlo as text, .pb as proto, .gz after.",
)
@json_option
@one_sentence_errors
@filters
@decision_options
def decide_command(
    path: str, lowering: str, output: str | None, as_json: bool, selection: Selection, settings: DecisionSettings
) -> None:
    """Run the compiler pass on one module and show its decisions.

    It is the same pass as in the compiler. Devices 0 to N-1 are laid out evenly over processes, hosts and NVLink
    domains. A collective that the transport does not carry keeps its decision, and is shown as lowered to DEFAULT with
    the reason.

    \b
    Examples:
      xla-shmem inspect decide module.txt --ops 'all-reduce<1MiB,all-gather'
      xla-shmem inspect decide module.hlo.pb --devices-per-process 4 --num-devices 16 --profile domain
      xla-shmem inspect decide module.txt.gz --output rewritten.txt --json
    """
    from xla_shmem import _core

    if output is not None:
        check_output(output)
    module = read_module(path)
    warn_of_unpartitioned([module])
    result = settings.decide(_core.run_pass, module, module.platform if lowering == "auto" else lowering)
    if output is not None:
        write_module(output, module.proto if result.module is None else result.module)
    selected = [record for record in result.records if selection(record)]
    (print_json if as_json else print_tables)([ModuleReport(module.source, module.name, selected)])


@click.command("explain")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.argument("name", metavar="NAME")
@json_option
@one_sentence_errors
@decision_options
def explain_command(paths: tuple[str, ...], name: str, as_json: bool, settings: DecisionSettings) -> None:
    """Print each rule's question, evidence and verdict on a collective.

    NAME is the name of its instruction. The rules are asked again. A module does not contain the options and the layout
    of devices: give them.

    \b
    Examples:
      xla-shmem inspect explain /tmp/dump all-reduce.67 --devices-per-process 4
    """
    from xla_shmem.console import report_console
    from xla_shmem.inspect.explanation import describe_explanation, explain, explanation_as_json

    if Path(name).exists() and not Path(paths[0]).exists():
        raise click.UsageError(f"PATH comes before NAME: xla-shmem inspect explain {name} {paths[0]}")
    found = explain(_read(paths, Selection()), name, settings)
    if as_json:
        click.echo(json.dumps([explanation_as_json(*one) for one in found], indent=2))
        return
    console = report_console()
    for one in found:
        console.print(describe_explanation(*one))


@click.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@json_option
@one_sentence_errors
@filters
def diff_command(before: str, after: str, as_json: bool, selection: Selection) -> None:
    """Compare the collectives of two dumps A and B.

    The exit code is 0 whether they differ or not.

    \b
    Examples:
      xla-shmem inspect diff /tmp/dump-0.11 /tmp/dump-0.12
    """
    from xla_shmem.inspect.difference import compare
    from xla_shmem.inspect.difference_report import print_difference, print_difference_json

    differences = compare(_read([before], selection), _read([after], selection))
    (print_difference_json if as_json else print_difference)(differences)


@click.command("inspect", cls=CommandWithSubcommands, subcommands=(decide_command, explain_command, diff_command))
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--overlap", is_flag=True, help="Add the work that XLA scheduled between start and done of each pair.")
@click.option("--html", "page", metavar="FILE", help="Write one self-contained page for a browser.")
@json_option
@click.pass_context
@one_sentence_errors
@filters
@layout_options
def inspect_command(
    ctx: click.Context,
    paths: tuple[str, ...],
    overlap: bool,
    page: str | None,
    as_json: bool,
    selection: Selection,
    settings: DecisionSettings,
) -> None:
    """Show every collective of compiled modules: backend, rule and reason.

    PATH is a directory written by --xla_dump_to, HLO text, a serialized HloModuleProto or HloProto (.pb), any
    of them compressed, or - for standard input. The table shows the decisions that a module records: rule and reason if
    xla-shmem compiled it, the backend only if stock XLA did.

    The layout of devices (--devices-per-process to --num-devices) is for the map of groups in --html.

    The platform of a module is in the name of its dump (cpu_after_optimizations, gpu_after_optimizations). For other
    names, start/done pairs or a collective_backend_config mean GPU, anything else CPU.

    \b
    Examples:
      XLA_FLAGS="$XLA_FLAGS --xla_dump_to=/tmp/dump" python train.py && xla-shmem inspect /tmp/dump
      xla-shmem inspect /tmp/dump --op all-reduce --backend DEFAULT --min-bytes 1MiB
      xla-shmem inspect /tmp/dump --html report.html --devices-per-process 4
      xla-shmem inspect --json module.hlo.pb | jq '.[] | select(.backend == "DEFAULT")'
    """
    _check_together(given_options(ctx), page)
    modules = _read(paths, selection)
    if page is not None:
        from xla_shmem.inspect.page import write_page

        write_page(Path(page), modules, settings)
        click.echo(f"Wrote {page}.")
    elif as_json:
        print_json(_with_overlap(modules) if overlap else [module.report() for module in modules])
    else:
        _print_tables(modules, overlap)


def _check_together(given: list[str], page: str | None) -> None:
    if page is not None and "--json" in given:
        raise click.UsageError("--json prints and --html writes a page: give one of them.")
    if page is not None and "--overlap" in given:
        raise click.UsageError("--overlap has no effect with --html: the page always shows the overlap.")
    for option in LAYOUT_OPTIONS:
        if page is None and option in given:
            raise click.UsageError(f"{option} has no effect without --html: it is for the page's map of groups.")


def _read(paths: Iterable[str], selection: Selection) -> list[InspectedModule]:
    modules = [module for path in paths for module in read_inspected(path, selection)]
    warn_of_unpartitioned([module.input for module in modules])
    return modules


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
