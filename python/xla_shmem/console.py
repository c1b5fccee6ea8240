"""Console and tables for reports."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import render
from rich.table import Table
from rich.text import Text

_UNLIMITED = 10_000


class _Pipe(Console):
    """A console on a file or pipe: nothing wraps, and the cells of a table are separated by tabs, without padding."""

    def print(self, *objects: Any, **settings: Any) -> None:
        if len(objects) == 1 and isinstance(objects[0], Group):
            for part in objects[0].renderables:
                self.print(part, **settings)
        elif len(objects) == 1 and isinstance(objects[0], Table):
            self.file.write("".join(f"{line}\n" for line in _lines(objects[0])))  # rich would expand the tabs
        else:
            super().print(*objects, **settings)


def _lines(table: Table) -> Iterator[str]:
    if table.title:
        yield _text(table.title)
    if table.show_header:
        yield "\t".join(_text(column.header) for column in table.columns)
    for row in zip(*(column.cells for column in table.columns), strict=True):
        yield "\t".join(map(_text, row))


def _text(cell: RenderableType) -> str:
    text = cell if isinstance(cell, Text) else render(str(cell))
    return " ".join(text.plain.splitlines())


def report_console(*, stderr: bool = False) -> Console:
    """Returns a console that wraps at the width of a terminal; a file or pipe gets whole lines without padding.

    Args:
      stderr: print there, because stdout holds JSON.
    """
    console = Console(highlight=False, stderr=stderr)
    return console if console.is_terminal else _Pipe(highlight=False, stderr=stderr, width=_UNLIMITED)


def plain_text(report: Callable[[Console], None], width: int = _UNLIMITED, *, terminal: bool = False) -> str:
    """Returns what ``report`` prints, with padding, but without colours and without blanks at the ends of lines.

    Args:
      report: prints to the console that it is given.
      width: lines wrap there.
      terminal: the console says that it is one, so reports leave out what does not fit.
    """
    text = io.StringIO()
    # In a notebook rich would show every piece by itself.
    report(
        Console(
            file=text, width=width, force_terminal=terminal, highlight=False, color_system=None, force_jupyter=False
        )
    )
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def report_table() -> Table:
    """Returns an empty table with a line below its head and no border."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
