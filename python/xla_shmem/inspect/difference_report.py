"""Prints the differences between two dumps."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
from rich.console import Console
from rich.text import Text

from xla_shmem.console import report_console
from xla_shmem.inspect.difference import Difference, describe_collective


def print_difference(differences: Sequence[Difference], console: Console | None = None) -> None:
    """Prints the collectives of each module that vanished, appeared or changed, and the number of equal ones.

    ``console`` is stdout if it is omitted.
    """
    console = console or report_console()
    for one in differences:
        if one.only_in and not one.vanished and not one.appeared:
            continue  # a module without collectives in one dump is no difference of collectives
        lone = {"before": "  only in the first dump", "after": "  only in the second dump", "": ""}[one.only_in]
        console.print(Text.assemble((one.module, "bold"), lone), soft_wrap=True)
        for record in one.vanished:
            console.print(Text.assemble(("- ", "red"), describe_collective(record)), soft_wrap=True)
        for record in one.appeared:
            console.print(Text.assemble(("+ ", "green"), describe_collective(record)), soft_wrap=True)
        for change in one.changed:
            console.print(Text.assemble(("~ ", "yellow"), change.describe()), soft_wrap=True)
            for what, before, after in change.differences:
                console.print(Text(f"    {what}: {before} → {after}"), soft_wrap=True)
        console.print(one.summary())


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
