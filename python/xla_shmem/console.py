"""Console and tables for reports."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

_UNLIMITED = 10_000


def report_console() -> Console:
    """Returns a console on stdout that wraps at the width of a terminal, and does not wrap in a file or pipe."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def report_table() -> Table:
    """Returns an empty table with a line below its head and no border."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
