"""The log of a training job, one JSON object per line and step. Free of JAX, for processes that follow it."""

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
    tflops_per_device: float = 0.0  # model TFLOP/s of each device (`throughput.step_flops`)
    compiled: bool = False  # the step compiled the program first: one such in every start of the job


class StepLog:
    """The log of a job that starts, or goes on: what an earlier start wrote of the first record's step and later goes.

    Args:
      path: of the log; its folder is made if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = False

    def append(self, record: StepRecord) -> None:
        """Adds a line, in one write."""
        if not self._begun:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            forget_records(self._path, record.step)
            self._begun = True
        with self._path.open("a") as file:
            file.write(json.dumps(record._asdict()) + "\n")


class LogFollower:
    """Reads a log that is still being written, each record once.

    Args:
      path: of the log, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_records(self) -> list[StepRecord]:
        """The records since the last call, without a last line that is incomplete.

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
    """The records written so far; none if there is no such file.

    Raises:
      ValueError: a line is not a record.
    """
    return LogFollower(path).new_records()


def forget_records(path: Path, step: int) -> None:
    """Leaves only the records before `step`: what came after the checkpoint that a job goes on from."""
    if not path.exists():
        return
    kept = [record for record in read_records(path) if record.step < step]
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(record._asdict()) + "\n" for record in kept))
    os.replace(new, path)
