"""The log of a training job: one line per step, a JSON object. Free of JAX, for processes that follow it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

#: Name of the log in a job's folder.
LOG_NAME = "steps.jsonl"


class StepRecord(NamedTuple):
    """One line of the log."""

    step: int
    loss: float  # nats per token, mean over the whole batch, before the step's update
    seconds: float  # wall-clock time of the whole step on rank 0
    tokens: int  # over all ranks
    tokens_per_second: float = 0.0  # over all ranks
    tflops_per_device: float = 0.0  # model TFLOP/s per device (`throughput.step_flops`)
    compiled: bool = False  # the step includes compilation: the first step of every start of the job
    validation_loss: float | None = None  # nats per token after the step's update, if it was measured


class StepLog:
    """Writes the log of a job. The first record removes the records of an earlier start from its step on.

    Args:
      path: path of the log; its folder is created if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = False

    def append(self, record: StepRecord) -> None:
        """Adds a line with one write."""
        if not self._begun:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            forget_records(self._path, record.step)
            self._begun = True
        with self._path.open("a") as file:
            file.write(json.dumps(record._asdict()) + "\n")


class LogFollower:
    """Reads a log while it is written, each record once.

    Args:
      path: path of the log, which may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_records(self) -> list[StepRecord]:
        """The new records since the last call; an incomplete last line is left for the next call.

        Raises:
          ValueError: a line is not a record.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        try:
            return [StepRecord(**json.loads(line)) for line in complete.splitlines()]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self._path} is not a log of training steps: {error}") from None


def read_records(path: Path) -> list[StepRecord]:
    """The records written so far; none if the file does not exist.

    Raises:
      ValueError: a line is not a record.
    """
    return LogFollower(path).new_records()


def forget_records(path: Path, step: int) -> None:
    """Keeps only the records before `step`, for a job that resumes there."""
    if not path.exists():
        return
    kept = [record for record in read_records(path) if record.step < step]
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(record._asdict()) + "\n" for record in kept))
    os.replace(new, path)
