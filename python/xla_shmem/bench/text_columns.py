"""Tables that are printed line by line, as they are measured: in a terminal's width, or for a program that reads."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from typing import TextIO

from xla_shmem.options.values import OP_ALIASES

_SHORT_NAMES = {op: short for short, op in OP_ALIASES.items()}


@dataclasses.dataclass(frozen=True)
class TextColumns:
    """The columns of a table.

    Attributes:
      widths: of each column by its name. The first one, `op`, is aligned to the left, the others to the right.
      padded: whether cells have these widths. Otherwise a tab separates them.
    """

    widths: Mapping[str, int]
    padded: bool = True

    def heading(self, names: Mapping[str, str] | None = None) -> str:
        """Returns a line, after a `#`, with the columns' names or with what `names` has for them."""
        return self._line({name: name for name in self.widths} if names is None else names, "# ")

    def line(self, cells: Mapping[str, str]) -> str:
        """Returns a line with the cells of these columns. An op that is too long gets its short name."""
        return self._line(cells, "  " if self.padded else "")

    def _line(self, cells: Mapping[str, str], mark: str) -> str:
        if not self.padded:
            return mark + "\t".join(cells.get(name, "") for name in self.widths)
        op = cells.get("op", "")
        if len(op) > self.widths["op"]:
            op = _SHORT_NAMES.get(op, op)
        others = (cells.get(name, "").rjust(width) for name, width in self.widths.items() if name != "op")
        return mark + " ".join([op.ljust(self.widths["op"]), *others]).rstrip()

    @property
    def total(self) -> int:
        """Width of a line, and of the mark before it."""
        return sum(self.widths.values()) + len(self.widths) + 1


def columns_for(stream: TextIO, full: TextColumns, narrow: TextColumns) -> TextColumns:
    """Returns the columns for a stream: the narrow ones for a terminal that is too narrow for all, else all."""
    if not stream.isatty():
        return dataclasses.replace(full, padded=False)
    return full if full.total <= shutil.get_terminal_size().columns else narrow
