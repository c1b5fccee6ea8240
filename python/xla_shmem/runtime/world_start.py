"""What the starts of a process's worlds have in common."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xla_shmem import _core
from xla_shmem.gpu.nvlink_domains import any_over_pcie
from xla_shmem.gpu.process_facts import Announcement, ProcessFacts
from xla_shmem.gpu.worlds import World
from xla_shmem.options import Options
from xla_shmem.runtime.gpu_runtime import Runtime, puts_of
from xla_shmem.runtime.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StartingProcess:
    """A process whose job has agreed to start.

    Attributes:
      options: the options in force.
      store: of the job.
      prefix: of its keys, without a slash at the end.
      process: its number.
      runtime: its calls.
      timeout_s: seconds to wait for other processes.
      announced: by process.
      worlds: of the job.
      ordinals: CUDA ordinals of its devices, in the order of its GPUs.
    """

    options: Options
    store: Store
    prefix: str
    process: int
    runtime: Runtime
    timeout_s: float
    announced: Sequence[Announcement]
    worlds: Sequence[World]
    ordinals: Sequence[int]

    @property
    def facts(self) -> list[ProcessFacts]:
        """By process."""
        return [one.facts for one in self.announced]

    def own_worlds(self) -> list[World]:
        """Returns the worlds that its devices are in."""
        return [world for world in self.worlds if self.process in world.processes]

    def devices_of(self, world: World) -> list[tuple[int, int]]:
        """Returns (PE of the world, CUDA ordinal) of its devices there."""
        return [(pe, self.ordinals[world.places[pe].local]) for pe in world.pes_of(self.process)]

    def share_gpus(self, world: World) -> bool:
        """Returns whether two PEs of the world have one GPU."""
        gpus = [
            (self.facts[place.process].host, gpu.bus_id)
            for place, gpu in zip(world.places, world.gpus(self.facts), strict=True)
        ]
        return len(set(gpus)) < len(gpus)

    def asks_for_multicast(self, world: World) -> bool:
        """Returns whether there is to be multicast memory; equal in all processes of a world.

        False on GPUs that have none, and for processes that share a GPU, whose start may fail with it.
        """
        unknown = (0, 0)
        able = all(
            gpu.compute_capability == unknown or gpu.compute_capability >= (9, 0) for gpu in world.gpus(self.facts)
        )
        return self.options.gpu_reduce == "multimem" and able and not self.share_gpus(world)

    def arena_bytes(self, world: World, multicast: bool) -> int:
        """Returns the bytes of symmetric memory of each PE."""
        return self.options.heap_size or _core.gpu_arena_bytes(len(world.pes), multicast)

    def start_arguments(self, world: World, pe: int, multicast: bool) -> dict[str, Any]:
        """Returns the arguments of ``gpu_start`` for a PE that do not depend on the heap."""
        opened = [self.announced[place.process].gpus[place.local] for place in world.places]
        return {
            "pe": pe,
            "n_pes": len(world.pes),
            "arena_bytes": self.arena_bytes(world, multicast),
            "puts": puts_of(self.options),
            "deadline_s": self.options.deadline,
            "permute": self._carrier_of_permutes(world),
            "multiprocessors": min(gpu.multiprocessors for gpu in opened),
            "multimem": multicast,
            "pcie": any_over_pcie(world.gpus(self.facts)),
            "timed": bool(self.options.stats or self.options.trace),
        }

    def _carrier_of_permutes(self, world: World) -> str:
        """Returns option `gpu_permute`, or "kernel" if a process of the world has no other; equal in all of them."""
        without = [
            place.process
            for place in world.places
            if not self.announced[place.process].gpus[place.local].can_copy_permutes
        ]
        if not without or self.options.gpu_permute == "kernel":
            return self.options.gpu_permute
        if self.process == world.processes[0]:
            logger.info(
                "xla_shmem: permutes of all sizes are kernels, because the driver of process %d has no stream memory"
                " operations on symmetric memory (CUDA 12.5)",
                without[0],
            )
        return "kernel"
