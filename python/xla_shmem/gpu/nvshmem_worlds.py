"""Which processes initialise NVSHMEM together, and as which PE.

NVSHMEM refuses to start if a PE has a peer that no transport reaches. Its remote transports stay off here, so a job
that is wider than one NVLink domain cannot be one world: each group of GPUs that reach one another is a world of its
own, with its own unique id.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xla_shmem.gpu.nvlink_domains import GpuPlace


@dataclass(frozen=True)
class World:
    """Processes that initialise NVSHMEM together.

    Attributes:
      number: as ``GpuPlace.reach``; names the unique id in the key-value store. Process ``processes[0]`` makes it.
      processes: by PE.
      error: why they cannot, "" if they can. The same on all of them.
    """

    number: int
    processes: tuple[int, ...]
    error: str


def nvshmem_worlds(places: Sequence[GpuPlace]) -> list[World]:
    """Returns the worlds of a job, by number. Pure; every process gets the same."""
    gpus_of = Counter(place.process for place in places)
    members: dict[int, list[GpuPlace]] = defaultdict(list)
    for place in places:
        members[place.reach].append(place)
    return [
        World(number, tuple(dict.fromkeys(place.process for place in there)), _why_not(there, gpus_of))
        for number, there in sorted(members.items())
    ]


def _why_not(members: Sequence[GpuPlace], gpus_of: Counter[int]) -> str:
    for place in members:
        if gpus_of[place.process] > 1:
            return (
                f"process {place.process} has {gpus_of[place.process]} GPUs and NVSHMEM one PE a process: start one"
                " process per GPU"
            )
    on_host = Counter(place.host for place in members)
    fewest, most = min(on_host.values()), max(on_host.values())
    if fewest != most:
        return f"NVSHMEM needs equally many PEs on every host; hosts of this NVLink domain have from {fewest} to {most}"
    return ""
