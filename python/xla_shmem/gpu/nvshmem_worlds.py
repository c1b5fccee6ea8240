"""Groups of processes that initialise NVSHMEM together (worlds), and their PEs.

NVSHMEM does not start if no transport reaches a peer of a PE. xla-shmem turns NVSHMEM's remote transports off, so a job
with several NVLink domains cannot be one world: each group of GPUs that reach one another is a world with its own
unique id. Whether its processes can start together is decided in xla_patch/nvshmem/gpu/world_members.cc.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xla_shmem import _core
from xla_shmem.gpu.nvlink_domains import GpuPlace
from xla_shmem.gpu.process_facts import ProcessFacts


@dataclass(frozen=True)
class World:
    """Processes that initialise NVSHMEM together.

    Attributes:
      number: ``GpuPlace.reach`` of its GPUs. It names the unique id that ``processes[0]`` puts into the store.
      processes: process numbers by PE.
      error: why they cannot start, "" if their places allow it. The same in all of them.
    """

    number: int
    processes: tuple[int, ...]
    error: str


def nvshmem_worlds(places: Sequence[GpuPlace]) -> list[World]:
    """Returns the worlds of a job by number. A pure function: every process computes the same."""
    gpus_of = Counter(place.process for place in places)
    members: dict[int, list[GpuPlace]] = defaultdict(list)
    for place in places:
        members[place.reach].append(place)
    return [
        World(number, tuple(dict.fromkeys(place.process for place in there)), _why_not(there, gpus_of))
        for number, there in sorted(members.items())
    ]


def why_world_cannot_start(
    world: World, facts: Sequence[ProcessFacts], free_bytes: Sequence[int], heap_bytes: int
) -> str:
    """Returns "" or why no process of a world can start. A pure function: every process computes the same.

    Args:
      world: the world.
      facts: the facts of each process of the job.
      free_bytes: free memory of each process's GPU.
      heap_bytes: memory that NVSHMEM will take on each PE.
    """
    if world.error:
        return world.error
    members = [
        (
            process,
            facts[process].host,
            facts[process].gpus[0].bus_id,
            facts[process].imex_channels,
            free_bytes[process],
        )
        for process in world.processes
    ]
    return _core.nvshmem_check_world(members, heap_bytes)


def _why_not(members: Sequence[GpuPlace], gpus_of: Counter[int]) -> str:
    for place in members:
        if gpus_of[place.process] > 1:
            return (
                f"process {place.process} has {gpus_of[place.process]} GPUs, but NVSHMEM has one PE a process: start"
                " one process per GPU"
            )
    return ""
