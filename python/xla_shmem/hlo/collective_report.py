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
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_console, report_table
from xla_shmem.quantities import format_bytes, plural

#: Width of a terminal from which the table has a column for computations.
_WIDE_ENOUGH = 150
#: Columns without which a narrow terminal does, those first that it misses least: the reasons below have the rules.
_DISPENSABLE = ("computation", "rule", "source", "dtype")

#: Ways that the backend says: the table has no column for them.
_PLAIN_WAYS = {"", "NCCL", "NVSHMEM", "in parts"}

_UNLIMITED = 10_000
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

    On a terminal the table has the columns that fit, and the reasons follow below it, each once. In a file or pipe each
    line has all columns. After that follows what ``below`` returns for the module. ``console`` is stdout if omitted.
    """
    console = console or report_console()
    for report in reports:
        if report.records:
            console.print(Text.assemble((report.module, "bold"), f"  {report.source}"), soft_wrap=True)
            columns = _columns(report.records)
            if console.is_terminal:
                columns.pop("reason")
                console.print(_fitting_table(console, columns))
                console.print()
                for reason, names in grouped_reasons(report.records).items():
                    console.print(Text(reason))
                    console.print(Padding(Text(_some(names), style="bold"), (0, 0, 0, 4)))
            else:
                console.print(_table(columns))
            for renderable in () if below is None else below(report):
                console.print()
                console.print(renderable)
            console.print()
    console.print(summary(reports))


def grouped_reasons(records: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Returns the names of the collectives for each rule and reason.

    Reasons that differ only in the collective's op and size are equal: "its size" stands for it.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        size = f"{record['op']} of {format_bytes(record['bytes'])}"
        groups.setdefault(_reason_with_rule(record).replace(size, f"{record['op']} of its size"), []).append(record)
    return {
        general if len({_reason_with_rule(one) for one in group}) > 1 else _reason_with_rule(group[0]): [
            one["name"] for one in group
        ]
        for general, group in groups.items()
    }


def _some(names: Sequence[str], most: int = 20) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _reason_with_rule(record: Mapping[str, Any]) -> str:
    return f"{record['rule']}: {full_reason(record)}"


def summary(reports: Sequence[ModuleReport]) -> str:
    """Returns the number of collectives and modules, and of each decision and what came of it, in a sentence."""
    counts = Counter(decided_backend(record).plain for report in reports for record in report.records)
    modules = plural(len(reports), "module")
    if not counts:
        return f"No collectives in {modules}."
    split = ", ".join(
        f"{counts[backend]} {backend}" for backend in sorted(counts, key=lambda name: (name == "DEFAULT", name))
    )
    return f"{plural(counts.total(), 'collective')} in {modules}: {split}."


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Text]]:
    """Returns the cells of each column."""
    columns = {
        "HLO name": [Text(record["name"]) for record in records],
        "op": [Text(record["op"]) for record in records],
        "dtype": [Text(record["dtype"]) for record in records],
        "bytes": [Text(format_bytes(record["bytes"])) for record in records],
        "groups": [Text(group_count(record)) for record in records],
        "backend": [decided_backend(record) for record in records],
        "way": [Text(record.get("way") or "") for record in records],
        "rule": [Text(record["rule"]) for record in records],
        "computation": [Text(place(record)) for record in records],
        "source": [Text(source_line(record)) for record in records],
        "reason": [Text(full_reason(record)) for record in records],
    }
    if not any(cell.plain for cell in columns["source"]):
        columns.pop("source")
    if {cell.plain for cell in columns["way"]} <= _PLAIN_WAYS:
        columns.pop("way")
    return columns


def _table(columns: Mapping[str, Sequence[Text]]) -> Table:
    table = report_table()
    for header in columns:
        table.add_column(header, justify="right" if header in ("bytes", "groups") else "left", overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def _fitting_table(console: Console, columns: dict[str, list[Text]]) -> Table:
    """Returns a table no wider than the terminal, if leaving out columns makes it so."""
    left = dict(columns)
    if console.width < _WIDE_ENOUGH:
        left.pop("computation")
    table = _table(left)
    for header in _DISPENSABLE:
        if Measurement.get(console, console.options.update(width=_UNLIMITED), table).maximum <= console.width:
            break
        left.pop(header, None)
        table = _table(left)
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


def group_count(record: Mapping[str, Any]) -> str:
    """Returns the number of groups and the devices of the largest, ``2 × 4``; of a permute those that pairs connect."""
    return f"{record['num_groups']} × {record['group_size']}" if record["group_size"] else "unknown"


def place(record: Mapping[str, Any]) -> str:
    """Returns the computation, and whether it is in a loop."""
    return f"{record['computation']}{' (loop)' if record['in_loop'] else ''}"


def source_line(record: Mapping[str, Any]) -> str:
    """Returns the user's source line without directories, ``train.py:42``; empty if the module has none."""
    return f"{PurePath(record['source_file']).name}:{record['source_line']}" if record["source_file"] else ""


def full_reason(record: Mapping[str, Any]) -> str:
    """Returns the reason of a decision, what speaks against it (a veto, the cost model), and what decides the way."""
    part_of = record.get("part_of")
    reason = f"part of {part_of}: {record['reason']}" if part_of else record["reason"]
    way = record.get("way_reason") and f"{record['way']}: {record['way_reason']}"
    parts = [reason, record["veto"] and f"not lowered: {record['veto']}", record["model"], way]
    return "; ".join(part for part in parts if part)
