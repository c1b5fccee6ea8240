"""What a platform's part of the job knows once it has come up."""

from __future__ import annotations

import dataclasses

from xla_shmem import _core


@dataclasses.dataclass(frozen=True)
class JobTopology:
    """The devices of the job and how far the transport reaches.

    Attributes:
      topology: device, process, host, NVLink domain and PE of every device.
      transport: what can be carried between them.
    """

    topology: _core.Topology
    transport: _core.Transport
