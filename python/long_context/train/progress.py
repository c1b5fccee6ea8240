"""Shows the progress of training jobs: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from long_context.train.step_log import StepRecord

#: Number of lines per job if there is no terminal.
_LINES = 20


class JobProgress:
    """A context manager that shows a bar for each job.

    Args:
      console: the console to print on.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps  {task.fields[news]}"),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)

    def __enter__(self) -> JobProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def follow(self, name: str, steps: int) -> Callable[[StepRecord], None]:
        """Adds a bar for a job and returns the function to call with each of its records."""
        task = self._bars.add_task(name, total=steps, news="starting, compiling")

        def on_step(record: StepRecord) -> None:
            self._bars.update(task, completed=record.step + 1, news=_news(record))
            last = record.step + 1 == steps
            if not self._console.is_terminal and (last or record.step % max(1, steps // _LINES) == 0):
                self._console.print(f"{name} step {record.step}: {_news(record)}")

        return on_step


def _news(record: StepRecord) -> str:
    rest = "" if record.compiled else f", {record.tokens_per_second:,.0f} tokens/s"
    validation = "" if record.validation_loss is None else f" (validation {record.validation_loss:.3f})"
    return f"loss {record.loss:.3f}{validation}{rest}"
