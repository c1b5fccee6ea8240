"""The model's constants, with where each comes from: `constants.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

FILE = Path(__file__).parent / "constants.toml"


@dataclasses.dataclass(frozen=True)
class Constants:
    """What the model takes from elsewhere than a cluster's data sheet.

    Attributes:
      matmul_efficiency: what large matmuls reach of the peak.
      attention_efficiency: the same for a fused attention kernel.
      memory_efficiency: what kernels reach of the memory's bandwidth.
      put_efficiency: what copy engines reach of NVLink.
      put_us: what an NVSHMEM put on a stream takes beside the transfer.
      nccl_efficiency: what SMs reach of NVLink.
      nic_efficiency: what any library reaches of the network.
      nccl_us: what starting a NCCL collective takes.
      nccl_channels: channels of a collective; each keeps one SM.
      nccl_point_to_point_channels: channels that sends and receives are dealt to.
      channel_gb_per_s: what one channel of a send and receive carries.
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
    """The constants as they are kept, measured and fitted ones."""
    entries = tomllib.loads(FILE.read_text())
    return Constants(**{name: entry["value"] for part in entries.values() for name, entry in part.items()})


def sources() -> list[tuple[str, float, str]]:
    """Name, value and source of every constant, in the file's order."""
    entries = tomllib.loads(FILE.read_text())
    return [(name, each["value"], each["source"]) for part in entries.values() for name, each in part.items()]
