"""Trains with MaxText and reads what each rank wrote: metrics of each step, statistics, and the compiled step."""

from __future__ import annotations

import json
import re
from collections import Counter
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
class TrainingRun:
    """What a job has left.

    Attributes:
      exit_code: of the launcher.
      output: of all ranks, each line with its rank in front.
      metrics: of each rank, what MaxText measured in each step.
      folder: holds ``output.txt`` and the dumps.
    """

    exit_code: int
    output: str
    metrics: dict[int, list[dict[str, Any]]]
    folder: Path

    def values(self, key: str) -> list[float]:
        """A metric of all steps, which must be equal on all ranks."""
        of_ranks = [[step[key] for step in steps] for steps in self.metrics.values()]
        assert all(values == of_ranks[0] for values in of_ranks), f"{key} differs between ranks: {of_ranks}"
        return of_ranks[0]

    def calls(self, rank: int) -> Counter[str]:
        """Calls of collectives of the training step that ran on SHMEM, by op, from the statistics at exit."""
        found: Counter[str] = Counter()
        for line_rank, calls, op in _STATISTICS_LINE.findall(self.output):
            if int(line_rank) == rank:
                found[op] += int(calls)
        return found

    def collectives(self, rank: int) -> list[dict[str, Any]]:
        """The collectives of the compiled training step, from the dump."""
        (step,) = (module for module in read_modules(str(self.folder / f"dump-{rank}")) if module.name == _STEP)
        return list(_core.inspect_module(step.proto))


def train(config: MaxTextConfig, mode: Mode, folder: Path, *, steps: int, counts: bool = True) -> TrainingRun:
    """Trains a model.

    Args:
      folder: for everything that the job writes.
      counts: whether the ranks print their statistics at exit.
    """
    environment = mode.environment({}) | {"XLA_SHMEM_STATS": str(int(counts))}
    command = python_ranks(config.ranks, _RANK, str(folder), *config.keys(steps))
    exit_code = run_program(command, environment, folder, timeout=1200)
    metrics = {
        int(file.stem): [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted(folder.glob("*.jsonl"))
    }
    return TrainingRun(exit_code, (folder / "output.txt").read_text(errors="replace"), metrics, folder)
