"""``xla-shmem inspect``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import RenderableType

from xla_shmem.cli.decision_options import decision_options
from xla_shmem.cli.one_sentence_errors import one_sentence_errors
from xla_shmem.hlo.collective_report import ModuleReport, print_json, print_tables
from xla_shmem.hlo.files import check_output, read_module, write_module
from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.inspect.modules import InspectedModule, read_inspected
from xla_shmem.inspect.overlap import overlap_as_json, overlap_table
from xla_shmem.inspect.selection import Selection, read_selection
from xla_shmem.inspect.totals import count_totals, totals_table

lowering_option = click.option(
    "--lowering",
    type=click.Choice(["auto", "none", "cpu", "gpu"]),
    help="Target of the rewrite: the platform that the module was compiled for, or another; 'none' writes only the "
    "decisions, as frontend attributes.  [default: auto]",
)


@click.command("inspect")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--op", "only_ops", multiple=True, metavar="OP", help="Collective, repeatable: show only these ops.")
@click.option(
    "--backend",
    type=click.Choice(["NVSHMEM", "DEFAULT"], case_sensitive=False),
    metavar="[NVSHMEM|DEFAULT]",
    help="Show only collectives that run on it.",
)
@click.option("--min-bytes", metavar="SIZE", help="Smallest size, of a result: show only larger ones and equal ones.")
@click.option("--loop/--no-loop", "in_loop", default=None, help="Show only collectives inside loops, or only outside.")
@click.option("--overlap", is_flag=True, help="Add the work that XLA scheduled between start and done of each pair.")
@click.option("--explain", "name", metavar="NAME", help="Print each rule's question, evidence and verdict for it.")
@click.option("--diff", nargs=2, metavar="A B", help="Compare the collectives of two dumps.")
@click.option("--html", "page", metavar="FILE", help="Write one self-contained page for a browser.")
@click.option("--decide", "decides", is_flag=True, help="Run the compiler pass on PATH and show its decisions.")
@lowering_option
@click.option(
    "--output",
    metavar="FILE",
    help="Where to write: the module that --decide has rewritten; .txt or .hlo as text, .pb as proto, .gz after.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
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
    decides: bool,
    lowering: str | None,
    output: str | None,
    as_json: bool,
    settings: DecisionSettings,
) -> None:
    """Show every collective of compiled modules: backend, rule and reason.

    PATH is a directory written by --xla_dump_to, HLO text, a serialized HloModuleProto or HloProto (.pb), any
    of them gzipped, or - for standard input. The table shows the decisions that a module records: rule and reason if
    xla-shmem compiled it, the backend only if stock XLA did.

    --decide runs the compiler pass offline on one module and shows its decisions. It is the same pass as in the
    compiler. Devices 0 to N-1 are laid out evenly over processes, hosts and NVLink domains. A collective that the
    transport does not carry keeps its decision, and is shown as lowered to DEFAULT with the reason.

    The options of the rules and of the layout of devices (--profile to --num-devices) are for --decide, for --explain,
    which asks the rules again, and for the map of groups in --html.

    The platform of a module is in the name of its dump (cpu_after_optimizations, gpu_after_optimizations). For other
    names, start/done pairs or a collective_backend_config mean GPU, anything else CPU.

    --diff ends with exit code 0 whether the dumps differ or not.

    \b
    Examples:
      XLA_FLAGS=--xla_dump_to=/tmp/dump python train.py && xla-shmem inspect /tmp/dump
      xla-shmem inspect /tmp/dump --op all-reduce --backend DEFAULT --min-bytes 1MiB
      xla-shmem inspect /tmp/dump --explain all-reduce.67 --devices-per-process 4
      xla-shmem inspect module.txt --decide --ops 'all-reduce<1MiB,all-gather'
      xla-shmem inspect module.hlo.pb --decide --devices-per-process 4 --num-devices 16 --profile domain
      xla-shmem inspect module.txt.gz --decide --output rewritten.txt --json
      xla-shmem inspect --diff /tmp/dump-0.10 /tmp/dump-0.11
      xla-shmem inspect /tmp/dump --html report.html
      xla-shmem inspect --json module.hlo.pb | jq '.[] | select(.backend == "DEFAULT")'
    """
    selection = read_selection(only_ops, backend and backend.upper(), min_bytes, in_loop)
    if not decides and (output or lowering):
        raise click.UsageError(f"--{'output' if output else 'lowering'} needs --decide.")
    if diff is not None:
        if paths or name or page or decides:
            raise click.UsageError(
                "--diff takes its two dumps itself: no PATH, --explain, --html or --decide beside it."
            )
        _print_difference(diff, selection, as_json)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH...': give a dump, or two with --diff.")
    if decides:
        if name or page or overlap:
            raise click.UsageError("--decide shows a table of decisions: no --explain, --html or --overlap beside it.")
        if len(paths) > 1:
            raise click.UsageError(f"--decide takes one module, and there are {len(paths)} paths.")
        show_decisions(paths[0], selection, settings, lowering, output, as_json)
        return
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


def show_decisions(
    path: str, selection: Selection, settings: DecisionSettings, lowering: str | None, output: str | None, as_json: bool
) -> None:
    """Runs the pass on the one module of a path, prints the selected collectives and writes the module if asked.

    Args:
      path: anything that `read_module` reads.
      selection: the collectives that are printed.
      settings: rules and layout of devices.
      lowering: ``"cpu"``, ``"gpu"``, ``"none"``; None or ``"auto"`` for the platform the module was compiled for.
      output: file for the rewritten module, None for none.
      as_json: print JSON instead of a table.

    Raises:
      HloFileError, OptionError: of the module, the file or an option.
    """
    from xla_shmem import _core

    if output is not None:
        check_output(output)
    module = read_module(path)
    platform = module.platform if lowering in (None, "auto") else lowering
    result = settings.decide(_core.run_pass, module, platform)
    if output is not None:
        write_module(output, module.proto if result.module is None else result.module)
    selected = [record for record in result.records if selection(record)]
    (print_json if as_json else print_tables)([ModuleReport(module.source, module.name, selected)])


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
