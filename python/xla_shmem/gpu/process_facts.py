"""The facts about its GPUs that a process announces to the others, as JSON in JAX's key-value store."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import NamedTuple

from xla_shmem.gpu.cuda_driver import VisibleGpus, same_bus_id_form, visible_gpus
from xla_shmem.gpu.nvml import Driver, Fabric, Gpu, Link, read_driver


@dataclasses.dataclass(frozen=True)
class GpuFacts:
    """One GPU that a process uses: a part of :class:`~xla_shmem.gpu.nvml.Gpu`, with bus ids in one form."""

    bus_id: str
    mig: bool = False
    switch_links: int = 0
    peer_links: tuple[str, ...] = ()
    peers: dict[str, Link | None] = dataclasses.field(default_factory=dict)
    fabric: Fabric | None = None
    compute_capability: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class ProcessFacts:
    """One process.

    Attributes:
      host: equal in processes that are on one host for NVSHMEM: same kernel and same host name. NVSHMEM compares host
        names, so two pods of one machine are two hosts.
      gpus: its GPUs in the order of its local devices; empty with an error.
      error: why its GPUs are unknown, "" otherwise.
      imex_channels: how many it sees, with which GPUs map memory of other hosts.
    """

    host: str
    gpus: tuple[GpuFacts, ...]
    error: str = ""
    imex_channels: int = 0

    def to_json(self) -> str:
        """Returns text for the key-value store."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> ProcessFacts:
        """Reads the text of :meth:`to_json`.

        Raises:
          ValueError, TypeError, KeyError: the text has another form.
        """
        value = json.loads(text)
        gpus = [
            GpuFacts(
                **gpu
                | {
                    "compute_capability": tuple(gpu["compute_capability"]),
                    "peer_links": tuple(gpu["peer_links"]),
                    "fabric": None if gpu["fabric"] is None else Fabric(**gpu["fabric"]),
                }
            )
            for gpu in value["gpus"]
        ]
        return ProcessFacts(value["host"], tuple(gpus), value["error"], value["imex_channels"])


class OpenGpu(NamedTuple):
    """What a process announces of a GPU that it has opened.

    Attributes:
      free_bytes: its free memory.
      multiprocessors: its SMs.
      can_copy_permutes: whether copies can carry its permutes (:class:`xla_shmem._core.GpuFacts`).
      nvshmem_error: why NVSHMEM could not be loaded, "" if it could or was not asked for.
    """

    free_bytes: int = 0
    multiprocessors: int = 0
    can_copy_permutes: bool = True
    nvshmem_error: str = ""


@dataclasses.dataclass(frozen=True)
class Announcement:
    """The announcement of one process to the others.

    Attributes:
      facts: its GPUs.
      gpus: the same GPUs, once they were opened.
      puts: what carries its puts, ``"driver"`` or ``"nvshmem"``; the latter need NVSHMEM's memory.
    """

    facts: ProcessFacts
    gpus: tuple[OpenGpu, ...]
    puts: str = "driver"

    @property
    def nvshmem_error(self) -> str:
        """Why the process has no NVSHMEM, "" if it has."""
        return next((gpu.nvshmem_error for gpu in self.gpus if gpu.nvshmem_error), "")

    def to_json(self) -> str:
        """Returns text for the store."""
        return json.dumps({"facts": self.facts.to_json(), "gpus": self.gpus, "puts": self.puts})

    @staticmethod
    def from_json(text: str) -> Announcement:
        """Reads the text of :meth:`to_json`."""
        value = json.loads(text)
        gpus = tuple(OpenGpu(*gpu) for gpu in value["gpus"])
        return Announcement(ProcessFacts.from_json(value["facts"]), gpus, value["puts"])


def read_process_facts(ordinals: Sequence[int] | None = None) -> ProcessFacts:
    """Returns the facts of this process. Never raises.

    Args:
      ordinals: CUDA ordinals of the GPUs that it uses (JAX's ``local_device_ids``); None for all visible ones.
    """
    from xla_shmem import _core  # gpu_check reads this module where the package is not built yet

    facts = process_facts(_core.host_identity(), read_driver(), visible_gpus(), ordinals)
    return dataclasses.replace(facts, imex_channels=_core.imex_channels())


def process_facts(
    host: str, driver: Driver, visible: VisibleGpus, ordinals: Sequence[int] | None = None
) -> ProcessFacts:
    """Returns the facts of a process on ``host`` that uses ``ordinals`` of the visible GPUs."""
    if error := driver.error or visible.error:
        return ProcessFacts(host, (), error)
    chosen = range(len(visible.bus_ids)) if ordinals is None else ordinals
    by_bus_id = {same_bus_id_form(gpu.bus_id): gpu for gpu in driver.gpus}
    gpus = []
    for ordinal in chosen:
        if not 0 <= ordinal < len(visible.bus_ids):
            return ProcessFacts(host, (), f"CUDA shows {len(visible.bus_ids)} GPUs, so there is no device {ordinal}")
        bus_id = same_bus_id_form(visible.bus_ids[ordinal])
        if bus_id not in by_bus_id:
            return ProcessFacts(host, (), f"CUDA shows the GPU at {bus_id}, but NVML does not")
        gpus.append(_facts(bus_id, by_bus_id[bus_id]))
    return ProcessFacts(host, tuple(gpus))


def _facts(bus_id: str, gpu: Gpu) -> GpuFacts:
    return GpuFacts(
        bus_id=bus_id,
        compute_capability=gpu.compute_capability,
        mig=gpu.mig,
        switch_links=gpu.switch_links,
        peer_links=tuple(sorted({same_bus_id_form(other) for other in gpu.peer_links})),
        peers={same_bus_id_form(other): link for other, link in gpu.peers.items()},
        fabric=gpu.fabric,
    )
