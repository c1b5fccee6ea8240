"""Where reports are printed."""

from __future__ import annotations

from rich.console import Console

_UNLIMITED = 10_000


def report_console() -> Console:
    """Returns a console on stdout that wraps to the width of a terminal, and never in a file or pipe."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console
