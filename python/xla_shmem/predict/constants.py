"""The model's constants and their sources: `constants.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

FILE = Path(__file__).parent / "constants.toml"


@dataclasses.dataclass(frozen=True)
class Constants:
    """Constants that are not in a cluster's data sheet. Efficiencies are fractions of the peak.

    Attributes:
      matmul_efficiency: of large matmuls.
      attention_efficiency: of a fused attention kernel.
      memory_efficiency: of kernels limited by memory bandwidth.
      put_efficiency: of copy engines on NVLink.
      put_us: overhead of an NVSHMEM put on a stream, in µs, without the transfer.
      nccl_efficiency: of SMs on NVLink.
      nic_efficiency: of the network, with any library.
      nccl_us: time to start a NCCL collective, in µs.
      nccl_channels: channels of a collective; each occupies one SM.
      nccl_point_to_point_channels: channels for sends and receives.
      channel_gb_per_s: bandwidth of one channel of a send and receive.
    """

    matmul_efficiency: float
    attention_efficiency: float
    memory_efficiency: float
    put_efficiency: float
    put_us: float
    nccl_efficiency: float
    nic_efficiency: float
    nccl_us: float
    nccl_channels: int
    nccl_point_to_point_channels: int
    channel_gb_per_s: float


def read_constants() -> Constants:
    """The constants of `constants.toml`, measured and fitted."""
    entries = tomllib.loads(FILE.read_text())
    return Constants(**{name: entry["value"] for part in entries.values() for name, entry in part.items()})


def sources() -> list[tuple[str, float, str]]:
    """Name, value and source of every constant, in the file's order."""
    entries = tomllib.loads(FILE.read_text())
    return [(name, each["value"], each["source"]) for part in entries.values() for name, each in part.items()]
