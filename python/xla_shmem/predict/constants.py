"""The model's constants and their sources: `constants.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

FILE = Path(__file__).parent / "constants.toml"


@dataclasses.dataclass(frozen=True)
class Constants:
    """Constants that are neither in a cluster's data sheet nor in the pass's cost model. Efficiencies are fractions.

    Attributes:
      matmul_efficiency: of large matmuls.
      attention_efficiency: of a fused attention kernel.
      memory_efficiency: of kernels limited by memory bandwidth.
      nic_efficiency: of the network, with any library.
      nccl_us: time to start a NCCL collective beyond an NVLink domain, in µs.
      nccl_channels: channels of a collective; each occupies one SM.
      channel_gb_per_s: bandwidth of one channel of a send and receive in a whole step.
    """

    matmul_efficiency: float
    attention_efficiency: float
    memory_efficiency: float
    nic_efficiency: float
    nccl_us: float
    nccl_channels: int
    channel_gb_per_s: float


def read_constants() -> Constants:
    """The constants of `constants.toml`, measured and fitted."""
    entries = tomllib.loads(FILE.read_text())
    return Constants(**{name: entry["value"] for part in entries.values() for name, entry in part.items()})


def sources() -> list[tuple[str, float, str]]:
    """Name, value and source of every constant, in the file's order."""
    entries = tomllib.loads(FILE.read_text())
    return [(name, each["value"], each["source"]) for part in entries.values() for name, each in part.items()]
