"""Groups of GPUs that share symmetric memory (worlds), their PEs, and what makes that memory.

NVSHMEM does not start if no transport reaches a peer of a PE, and xla-shmem turns its remote transports off. So a job
with several NVLink domains cannot be one world: each group of GPUs that reach one another is a world of its own.
NVSHMEM has one PE a process; with several GPUs in a process the CUDA driver makes the memory
(xla_patch/nvshmem/gpu/driver_heap.h). Whether the members of a world can start together is decided in
xla_patch/nvshmem/gpu/bootstrap.cc.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xla_shmem import _core
from xla_shmem.gpu.nvlink_domains import GpuPlace
from xla_shmem.gpu.process_facts import Announcement, GpuFacts, ProcessFacts

#: What makes the symmetric memory of a job.
Heap = Literal["nvshmem", "driver"]


@dataclass(frozen=True)
class World:
    """GPUs with one symmetric memory.

    Attributes:
      number: ``GpuPlace.reach`` of its GPUs. It names what its processes put into the store.
      pes: the job's PE of each PE of the world. A job's PE is the index of its `GpuPlace`.
      places: the GPU of each PE.
    """

    number: int
    pes: tuple[int, ...]
    places: tuple[GpuPlace, ...]

    @property
    def processes(self) -> tuple[int, ...]:
        """Its processes, each once, by their first PE."""
        return tuple(dict.fromkeys(place.process for place in self.places))

    def pes_of(self, process: int) -> list[int]:
        """Returns the PEs of the world that a process has."""
        return [pe for pe, place in enumerate(self.places) if place.process == process]

    def gpus(self, facts: Sequence[ProcessFacts]) -> list[GpuFacts]:
        """Returns the GPU of each PE.

        Args:
          facts: of each process of the job.
        """
        return [facts[place.process].gpus[place.local] for place in self.places]


def job_worlds(places: Sequence[GpuPlace]) -> list[World]:
    """Returns the worlds of a job by number. A pure function: every process computes the same."""
    members: dict[int, list[int]] = defaultdict(list)
    for pe, place in enumerate(places):
        members[place.reach].append(pe)
    return [World(number, tuple(pes), tuple(places[pe] for pe in pes)) for number, pes in sorted(members.items())]


def choose_heap(heap: str, announced: Sequence[Announcement]) -> tuple[Heap, str]:
    """Returns what makes the job's symmetric memory, and "" or why nothing can. A pure function.

    Args:
      heap: option ``gpu_heap``, equal in all processes.
      announced: by process.
    """
    needs_nvshmem = any(one.puts == "nvshmem" for one in announced)
    if heap == "driver":
        if needs_nvshmem:
            return "driver", "XLA_SHMEM_GPU_PUTS=nvshmem needs NVSHMEM's memory, XLA_SHMEM_GPU_HEAP=driver has its own"
        return "driver", ""
    why_not = next(
        (
            f"process {process} has {len(one.gpus)} GPUs, but NVSHMEM has one PE a process: start one process per GPU,"
            " or set XLA_SHMEM_GPU_HEAP and XLA_SHMEM_GPU_PUTS to auto"
            for process, one in enumerate(announced)
            if len(one.gpus) > 1
        ),
        "",
    ) or next((f"process {p}: {one.nvshmem_error}" for p, one in enumerate(announced) if one.nvshmem_error), "")
    if heap == "nvshmem" or needs_nvshmem:
        return "nvshmem", why_not
    return ("driver" if why_not else "nvshmem"), ""


def why_world_cannot_start(world: World, announced: Sequence[Announcement], heap: Heap, heap_bytes: int) -> str:
    """Returns "" or why no process of a world can start. A pure function: every process computes the same.

    Args:
      world: the world.
      announced: by process of the job.
      heap: what makes the symmetric memory.
      heap_bytes: memory that the heap will take on each PE.
    """
    members = [
        (
            place.process,
            announced[place.process].facts.host,
            announced[place.process].facts.gpus[place.local].bus_id,
            announced[place.process].facts.imex_channels,
            announced[place.process].gpus[place.local].free_bytes,
        )
        for place in world.places
    ]
    return _core.nvshmem_check_world(members, heap_bytes, heap)
