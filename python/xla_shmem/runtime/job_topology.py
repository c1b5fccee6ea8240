"""What a job has found out about its devices, on CPU and on GPU."""

from __future__ import annotations

import dataclasses

from xla_shmem import _core


@dataclasses.dataclass(frozen=True)
class JobTopology:
    """The devices of the job on one platform, and the reach of the transport.

    Attributes:
      topology: device, process, host, NVLink domain and PE of every device.
      transport: the collectives that can be carried between them.
      gpu: generation of its GPUs, for the cost model; "" on CPU, and if they differ or have no model.
      one_at_a_time: whether the collectives of a module must run one after the other, on CPU.
    """

    topology: _core.Topology
    transport: _core.Transport
    gpu: str = ""
    one_at_a_time: bool = False
