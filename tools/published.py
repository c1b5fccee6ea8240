"""The published measurements that predictions are fitted to and compared with: `published.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

from long_context.train.config import TrainConfig
from long_context.train.throughput import step_flops
from long_context_job import long_context_job
from xla_shmem.predict.program import Backend

_ENTRIES = tomllib.loads((Path(__file__).parent / "published.toml").read_text())


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of Table 2: tokens, and degrees of context and tensor parallelism."""

    sequence: int
    context: int
    tensor: int

    def __str__(self) -> str:
        return f"{self.sequence >> 10}K, CP {self.context}, TP {self.tensor}"

    @property
    def file_name(self) -> str:
        """Name for files of the row, without suffix: `64k-cp4-tp1`."""
        return f"{self.sequence >> 10}k-cp{self.context}-tp{self.tensor}"

    @property
    def devices(self) -> int:
        """GPUs of the job."""
        return self.context * self.tensor

    @property
    def tokens(self) -> int:
        """Tokens of a GPU as the post counts them: sequence / CP."""
        return self.sequence // self.context

    @property
    def flops(self) -> float:
        """Model FLOPs of a GPU in a step, counted as MaxText does."""
        job = self.job()
        return step_flops(job.model(), job.batch, job.sequence) / self.devices

    def job(self) -> TrainConfig:
        """The row's training job."""
        return long_context_job(self.sequence, self.context, self.tensor)


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was published of a row: TFLOP/s of a GPU by backend."""

    tflops: dict[Backend, float]

    @property
    def gain(self) -> float:
        """How much faster steps are with NVSHMEM; 0.3 means 30 %."""
        return self.tflops["NVSHMEM"] / self.tflops["DEFAULT"] - 1


#: All rows, in the order of the table.
TABLE2 = {
    Row(entry["sequence"] << 10, entry["context"], entry["tensor"]): Measured(
        {"DEFAULT": entry["default"], "NVSHMEM": entry["nvshmem"]}
    )
    for entry in _ENTRIES["rows"]
}


def other(name: str) -> dict[str, float]:
    """Another published measurement, which nothing is fitted to."""
    found: dict[str, float] = _ENTRIES[name]
    return found
