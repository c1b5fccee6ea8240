"""What this process tells its user: the logger `xla_shmem`, on stderr. A program's stdout is its own."""

from __future__ import annotations

import logging
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
    """Returns what ``report`` prints, as plain text in the width of the terminal; without one no line wraps."""
    from rich.console import Console

    from xla_shmem.console import plain_text

    stderr = Console(stderr=True)
    text = plain_text(report, stderr.width, terminal=True) if stderr.is_terminal else plain_text(report)
    return text.strip()
