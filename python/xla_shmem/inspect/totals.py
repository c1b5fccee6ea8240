"""Number of executions and bytes of each op on each backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_table
from xla_shmem.hlo.collective_report import styled_backend
from xla_shmem.quantities import format_bytes


@dataclass
class Total:
    """The collectives of one op on one backend.

    Attributes:
      collectives: number of collectives in the program.
      executions: executions in one run, without unknown ones.
      bytes: bytes of their results in one run, without unknown ones.
      unknown: number of collectives with an unknown number of executions.
    """

    op: str
    backend: str
    collectives: int = 0
    executions: int = 0
    bytes: int = 0
    unknown: int = 0

    def add(self, record: Mapping[str, Any]) -> None:
        """Counts one collective."""
        self.collectives += 1
        if record["executions"] is None:
            self.unknown += 1
        else:
            self.executions += record["executions"]
            self.bytes += record["executions"] * record["bytes"]


def count_totals(records: Iterable[Mapping[str, Any]]) -> list[Total]:
    """Returns a total for each op and backend of the records; those with most bytes first."""
    totals: dict[tuple[str, str], Total] = {}
    for record in records:
        key = record["op"], record["lowered"]
        totals.setdefault(key, Total(*key)).add(record)
    return sorted(totals.values(), key=lambda total: (-total.bytes, total.op, total.backend))


def totals_table(totals: Iterable[Total]) -> Table:
    """Returns the totals as a table. A step is one run of the module."""
    table = report_table()
    table.add_column("op", no_wrap=True)
    table.add_column("runs on", no_wrap=True)
    for header in ("collectives", "runs per step", "bytes per step"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("")
    for total in totals:
        table.add_row(
            Text(total.op),
            styled_backend(total.backend),
            str(total.collectives),
            str(total.executions),
            format_bytes(total.bytes),
            f"and {total.unknown} with an unknown number of runs" if total.unknown else "",
        )
    return table
