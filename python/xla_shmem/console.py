"""The console for reports."""

from __future__ import annotations

from rich.console import Console

_UNLIMITED = 10_000


def report_console() -> Console:
    """Returns a console on stdout that wraps at the width of a terminal, and does not wrap in a file or pipe."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console
