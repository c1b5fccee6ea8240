"""``xla-shmem inspect``."""

from __future__ import annotations

import click

from xla_shmem.collective_report import ModuleReport, print_json, print_tables
from xla_shmem.command_errors import one_sentence_errors
from xla_shmem.hlo_files import HloFileError, read_modules


@click.command("inspect")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects instead of tables.")
@one_sentence_errors
def inspect_command(paths: tuple[str, ...], as_json: bool) -> None:
    """Show every collective of compiled modules: backend, rule and reason.

    PATH is a directory written by --xla_dump_to, HLO text, a serialized HloModuleProto or HloProto (.pb), any
    of them gzipped, or - for standard input. Nothing is decided here: the table shows what the module says.
    Modules that xla-shmem compiled carry rule and reason; modules of stock XLA carry the backend only.

    \b
    Examples:
      XLA_FLAGS=--xla_dump_to=/tmp/dump python train.py && xla-shmem inspect /tmp/dump
      xla-shmem inspect --json module.hlo.pb | jq '.[] | select(.backend == "DEFAULT")'
    """
    from xla_shmem import _core

    reports = []
    for path in paths:
        for module in read_modules(path):
            try:
                records = _core.inspect_module(module.proto)
            except ValueError as error:
                raise HloFileError(f"{module.source}: {error}") from None
            reports.append(ModuleReport(module.source, module.name, records))
    (print_json if as_json else print_tables)(reports)
