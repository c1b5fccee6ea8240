"""Trains with MaxText and reads what each rank wrote: metrics of each step, statistics, and the compiled step."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client_modes import Mode, python_ranks, run_program
from maxtext_configs import MaxTextConfig

from xla_shmem import _core
from xla_shmem.hlo.files import read_modules

_RANK = str(Path(__file__).with_name("maxtext_rank.py"))
_STEP = "jit_train_step"
# A line of the table of XLA_SHMEM_STATS: rank, calls, and at its end op, module and instruction.
_STATISTICS_LINE = re.compile(rf"^\[(\d+)\] +(\d+) .* ([a-z-]+) +{_STEP}/\S+$", re.MULTILINE)


@dataclass(frozen=True)
class Training:
    """What the training of one model has left.

    Attributes:
      config: the model.
      folder: of its files.
      metrics: of each rank, what MaxText measured in each step.
      error: why training failed, "" if it did not.
    """

    config: MaxTextConfig
    folder: Path
    metrics: dict[int, list[dict[str, Any]]]
    error: str

    def values(self, key: str) -> list[float]:
        """A metric of all steps, which must be equal on all ranks."""
        of_ranks = [[step[key] for step in steps] for steps in self.metrics.values()]
        assert all(values == of_ranks[0] for values in of_ranks), f"{key} differs between ranks: {of_ranks}"
        return of_ranks[0]

    def executions(self, rank: int, backend: str) -> Counter[str]:
        """Executions of collectives in one step, by op, that the dump of the compiled step gives to a backend."""
        steps = [module for module in read_modules(str(self.folder / f"dump-{rank}")) if module.name == _STEP]
        found: Counter[str] = Counter()
        for collective in _core.inspect_module(steps[0].proto):
            if collective["lowered"] == backend:
                assert collective["executions"] is not None, f"{collective} is in a loop of unknown length"
                found[collective["op"]] += collective["executions"]
        return found


@dataclass(frozen=True)
class TrainingJob:
    """A job that trained several models.

    Attributes:
      exit_code: of the launcher.
      output: of all ranks, each line with its rank in front.
      trainings: by the names of the models.
    """

    exit_code: int
    output: str
    trainings: dict[str, Training]

    def calls(self, rank: int) -> Counter[str]:
        """Calls of collectives of all training steps that ran on SHMEM, by op, from the statistics at exit."""
        found: Counter[str] = Counter()
        for line_rank, calls, op in _STATISTICS_LINE.findall(self.output):
            if int(line_rank) == rank:
                found[op] += int(calls)
        return found


def train(
    configs: Sequence[MaxTextConfig], mode: Mode, folder: Path, *, steps: int, counts: bool = True
) -> TrainingJob:
    """Trains models of the same number of ranks, one after the other, in one job.

    Args:
      folder: for everything that the job writes.
      counts: whether the ranks print their statistics at exit.
    """
    environment = mode.environment({})
    if not counts:
        del environment["XLA_SHMEM_STATS"]
    (ranks,) = {config.ranks for config in configs}
    names = [config.name for config in configs]
    command = python_ranks(ranks, _RANK, str(folder), str(steps), *names)
    exit_code = run_program(command, environment, folder, timeout=600 + 300 * len(configs))
    trainings = {config.name: _read(config, folder / config.name) for config in configs}
    return TrainingJob(exit_code, (folder / "output.txt").read_text(errors="replace"), trainings)


def _read(config: MaxTextConfig, folder: Path) -> Training:
    metrics = {
        int(file.stem): [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(folder.glob("*.jsonl"))
    }
    return Training(config, folder, metrics, "\n".join(file.read_text() for file in sorted(folder.glob("*.error"))))
