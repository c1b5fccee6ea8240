"""The log of a training job, one JSON object per line and step. Free of JAX, for processes that follow it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class StepRecord(NamedTuple):
    """One line of the log."""

    step: int
    loss: float  # nats per token, mean over the whole batch, before the step's update
    seconds: float  # wall-clock time of the whole step on rank 0, feeding included; step 0 also compiles
    tokens: int  # over all ranks


def append_record(path: Path, record: StepRecord) -> None:
    """Adds a line to the log, in one write."""
    with path.open("a") as file:
        file.write(json.dumps(record._asdict()) + "\n")


def read_records(path: Path) -> list[StepRecord]:
    """The records written so far; none if there is no such file, and without a last line that is incomplete.

    Raises:
      ValueError: a line is not a record.
    """
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    complete = text[: text.rfind("\n") + 1]
    try:
        return [StepRecord(**json.loads(line)) for line in complete.splitlines()]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a log of training steps: {error}") from None
