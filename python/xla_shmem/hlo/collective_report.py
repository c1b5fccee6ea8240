"""Prints collectives and the decisions for them, as a table or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_console, report_table
from xla_shmem.quantities import format_bytes, plural

#: Width of a terminal from which the table has a column for reasons.
_WIDE_ENOUGH = 150

_STYLE = {"NVSHMEM": "green", "DEFAULT": "yellow", "HIERARCHICAL": "cyan"}


@dataclass(frozen=True)
class ModuleReport:
    """The collectives of one module.

    Attributes:
      source: file of the module.
      module: name of the module.
      records: one dict per collective, as ``_core.inspect_module`` and ``_core.run_pass`` return them.
    """

    source: str
    module: str
    records: Sequence[Mapping[str, Any]]


def print_json(reports: Sequence[ModuleReport]) -> None:
    """Prints one JSON list of all records; each also names its module and file."""
    records = [
        {**record, "module": report.module, "file": report.source} for report in reports for record in report.records
    ]
    click.echo(json.dumps(records, indent=2))


def print_tables(
    reports: Sequence[ModuleReport],
    below: Callable[[ModuleReport], Iterable[RenderableType]] | None = None,
    console: Console | None = None,
) -> None:
    """Prints one table per module that has collectives, and a line with totals.

    On a narrow terminal the reasons follow below the table. After them follows what ``below`` returns for the module.
    """
    console = report_console() if console is None else console
    for report in reports:
        if report.records:
            console.print(Text.assemble((report.module, "bold"), f"  {report.source}"), soft_wrap=True)
            console.print(_table(report.records, with_reasons=console.width >= _WIDE_ENOUGH))
            if console.width < _WIDE_ENOUGH:
                for record in report.records:
                    console.print(Text.assemble((record["name"], "bold"), f": {full_reason(record)}"))
            for renderable in () if below is None else below(report):
                console.print()
                console.print(renderable)
            console.print()
    console.print(_summary(reports))


def _summary(reports: Sequence[ModuleReport]) -> str:
    counts = Counter(record["backend"] for report in reports for record in report.records)
    modules = plural(len(reports), "module")
    if not counts:
        return f"No collectives in {modules}."
    split = ", ".join(f"{counts[backend]} {backend}" for backend in sorted(counts, reverse=True))
    return f"{plural(counts.total(), 'collective')} in {modules}: {split}."


def _table(records: Sequence[Mapping[str, Any]], *, with_reasons: bool) -> Table:
    table = report_table()
    table.add_column("HLO name", overflow="fold")
    table.add_column("op", no_wrap=True)
    table.add_column("dtype", overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("groups", justify="right", no_wrap=True)
    table.add_column("backend", no_wrap=True)
    table.add_column("rule", overflow="fold")
    if with_reasons:
        table.add_column("reason", overflow="fold")
    table.add_column("computation", overflow="fold")
    has_sources = any(record["source_file"] for record in records)
    if has_sources:
        table.add_column("source", overflow="fold")
    for record in records:
        cells = [
            Text(record["name"]),
            Text(record["op"]),
            Text(record["dtype"]),
            Text(format_bytes(record["bytes"])),
            Text(f"{record['num_groups']} × {record['group_size']}"),
            decided_backend(record),
            Text(record["rule"]),
            *([Text(full_reason(record))] if with_reasons else []),
            Text(record["computation"] + (" (loop)" if record["in_loop"] else "")),
            *([Text(source_line(record))] if has_sources else []),
        ]
        table.add_row(*cells)
    return table


def styled_backend(backend: str) -> Text:
    """Returns a backend's name in its colour."""
    return Text(backend, style=_STYLE.get(backend, ""))


def decided_backend(record: Mapping[str, Any]) -> Text:
    """Returns the decision, and after an arrow the backend it is lowered to if that differs."""
    shown = styled_backend(record["backend"])
    if record["lowered"] != record["backend"]:
        shown.append(f" → {record['lowered']}", style="red")
    return shown


def source_line(record: Mapping[str, Any]) -> str:
    """Returns the user's source line without directories, ``train.py:42``; empty if the module has none."""
    return f"{PurePath(record['source_file']).name}:{record['source_line']}" if record["source_file"] else ""


def full_reason(record: Mapping[str, Any]) -> str:
    """Returns the reason of a decision, with what speaks against it: a veto, or the cost model."""
    part_of = record.get("part_of")
    reason = f"part of {part_of}: {record['reason']}" if part_of else record["reason"]
    parts = [reason, record["veto"] and f"not lowered: {record['veto']}", record["model"]]
    return "; ".join(part for part in parts if part)
