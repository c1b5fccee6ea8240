"""What this process tells its user: the logger `xla_shmem`, on stderr. A program's stdout is its own."""

from __future__ import annotations

import io
import logging
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_LEVELS = (logging.NOTSET, logging.INFO, logging.DEBUG)


def begin_messages(verbose: int) -> None:
    """Lets the logger's informative messages through, if the user asked for them.

    Without a handler Python prints warnings and errors only. A program that has configured logging keeps its handlers.

    Args:
      verbose: 0 for warnings and errors; 1 adds decisions (`INFO`), 2 the runtime's steps (`DEBUG`).
    """
    if not verbose:
        return
    logger = logging.getLogger("xla_shmem")
    logger.setLevel(_LEVELS[verbose])
    if not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())


def printed(report: Callable[[Console], None]) -> str:
    """Returns what `report` prints, as plain text in the width of a terminal (80 columns without one)."""
    from rich.console import Console

    text = io.StringIO()
    report(Console(file=text, width=shutil.get_terminal_size().columns, color_system=None, highlight=False))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip()
