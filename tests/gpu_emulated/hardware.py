"""The GPUs of this machine in the place of emulated ones: `pytest tests/gpu_emulated --hardware`.

Ranks share a GPU if there are more of them than GPUs. Tests of the emulator itself fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emulator import Emulator

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks/gpu"))

from gpu_check.ranks import environment

from xla_shmem.gpu.chosen_gpus import read_gpus


@dataclass(frozen=True)
class Hardware(Emulator):
    """This machine's GPUs.

    Attributes:
      count: how many CUDA shows.
    """

    count: int = 1

    @staticmethod
    def found() -> Hardware:
        """Returns what this machine has.

        Raises:
          BenchError: it has no GPU.
        """
        return Hardware(Path(), Path(), count=len(read_gpus().names))

    def variables(
        self, devices: int, flags: Iterable[str] = (), environ: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """As of `Emulator`, without the flags that only emulated GPUs need."""
        return environment(devices, self.count) | {"XLA_FLAGS": " ".join(flags), "PYTHONPATH": ""}
