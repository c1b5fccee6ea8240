"""Prints the differences between two dumps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.text import Text

from xla_shmem.hlo.collective_report import group_count, source_line
from xla_shmem.inspect.difference import Difference
from xla_shmem.quantities import format_bytes


def print_difference(differences: Sequence[Difference]) -> None:
    """Prints the collectives of each module that vanished, appeared or changed, and the number of equal ones."""
    from xla_shmem.console import report_console

    console = report_console()
    for one in differences:
        if one.only_in and not one.vanished and not one.appeared:
            continue  # a module without collectives in one dump is no difference of collectives
        lone = {"before": "  only in the first dump", "after": "  only in the second dump", "": ""}[one.only_in]
        console.print(Text.assemble((one.module, "bold"), lone), soft_wrap=True)
        for record in one.vanished:
            console.print(Text.assemble(("- ", "red"), _description(record)), soft_wrap=True)
        for record in one.appeared:
            console.print(Text.assemble(("+ ", "green"), _description(record)), soft_wrap=True)
        for change in one.changed:
            names = [change.before["name"], change.after["name"]]
            name = names[0] if names[0] == names[1] else " → ".join(names)
            console.print(Text.assemble(("~ ", "yellow"), _description(change.after, name)), soft_wrap=True)
            for what, before, after in change.differences:
                console.print(Text(f"    {what}: {before} → {after}"), soft_wrap=True)
        console.print(
            f"{len(one.vanished)} vanished, {len(one.appeared)} appeared, "
            f"{len(one.changed)} changed, {one.equal} equal."
        )


def print_difference_json(differences: Sequence[Difference]) -> None:
    """Prints a JSON list with one object per module."""
    click.echo(
        json.dumps(
            [
                {
                    "module": one.module,
                    "only_in": one.only_in or None,
                    "vanished": list(map(dict, one.vanished)),
                    "appeared": list(map(dict, one.appeared)),
                    "changed": [
                        {
                            "before": dict(change.before),
                            "after": dict(change.after),
                            "differences": [
                                {"what": what, "before": before, "after": after}
                                for what, before, after in change.differences
                            ],
                        }
                        for change in one.changed
                    ],
                    "equal": one.equal,
                }
                for one in differences
            ],
            indent=2,
        )
    )


def _description(record: Mapping[str, Any], name: str | None = None) -> str:
    source = f", {source_line(record)}" if record["source_file"] else ""
    return (
        f"{name or record['name']}  {record['op']} {record['dtype']} {format_bytes(record['bytes'])}, "
        f"{group_count(record)}, {record['lowered']}{source}"
    )
