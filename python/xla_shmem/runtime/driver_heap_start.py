"""The start of a job whose symmetric memory is the CUDA driver's (xla_patch/nvshmem/gpu/driver_heap.h).

First every process makes the memory of its own GPUs, and all learn whether each could. Only then they map one another's
memory. So what fails in one process ends no other, and everything is given back if the job does not start.
"""

from __future__ import annotations

import json
import logging

from xla_shmem import _core
from xla_shmem.gpu.worlds import World, why_world_cannot_start
from xla_shmem.runtime.world_start import StartingProcess

logger = logging.getLogger(__name__)

_Notes = dict[str, str]  # by number of the world


def make_driver_heaps(start: StartingProcess, processes: int) -> tuple[str, list[_Notes]]:
    """Makes the memory of this process's GPUs and tells the others how to map it.

    Args:
      start: the process.
      processes: of the job.

    Returns:
      "" or why the job cannot start, and the notes of each process. The same in all processes.
    """
    notes, error = {}, ""
    try:
        for world in start.own_worlds():
            multicast = start.asks_for_multicast(world)
            arena_bytes = start.arena_bytes(world, multicast)
            if error := why_world_cannot_start(world, start.announced, "driver", arena_bytes):
                break
            notes[str(world.number)] = start.runtime.make_heap(
                world.number, start.devices_of(world), len(world.pes), arena_bytes, _sharing(start, world), multicast
            )
    except RuntimeError as failure:
        error = str(failure)
    reason, texts = _core.agree_in_job(
        start.store,
        start.process,
        processes,
        f"{start.prefix}/heap/",
        start.timeout_s,
        error=error,
        agreement="",
        facts=json.dumps(notes),
    )
    return reason, [json.loads(text) for text in texts]


def start_on_driver_heaps(start: StartingProcess, notes: list[_Notes]) -> str:
    """Maps the memory of all processes and starts this one's devices; returns "" or why that failed."""
    try:
        for world in start.own_worlds():
            others = [
                (process, world.pes_of(process), notes[process][str(world.number)])
                for process in world.processes
                if process != start.process
            ]
            why_no_multicast = start.runtime.join_heap(world.number, start.process, others, start.timeout_s)
            multicast = start.asks_for_multicast(world)
            if multicast:
                _open_multicast(start, world, why_no_multicast)
            for pe, device in start.devices_of(world):
                start.runtime.start(
                    **start.start_arguments(world, pe, multicast),
                    unique_id=b"",
                    device=device,
                    heap=world.number,
                )
    except RuntimeError as failure:
        for world in start.own_worlds():
            start.store.propose(_added_key(start, world, start.process), str(failure))
        return str(failure)
    return ""


def _added_key(start: StartingProcess, world: World, process: int) -> str:
    return f"{start.prefix}/multicast-added/{world.number}/{process}"


def _open_multicast(start: StartingProcess, world: World, why_not: str) -> None:
    """Makes the world's multicast memory if all its processes can have it: the driver waits for GPUs that are missing.

    Args:
      start: the process.
      world: the world, whose memory this process has mapped.
      why_not: why this process cannot have it, "" if it can.
    """
    start.store.propose(_added_key(start, world, start.process), why_not)
    try:
        for process in world.processes:
            if reason := start.store.wait(_added_key(start, world, process), start.timeout_s):
                logger.info("xla_shmem: process %d has no multicast memory: %s", process, reason)
                return
        start.runtime.open_multicast(world.number)
    except (RuntimeError, TimeoutError) as failure:
        logger.info("xla_shmem: no multicast memory: %s", failure)


def _sharing(start: StartingProcess, world: World) -> str:
    """How the processes of a world share memory: across hosts only the fabric of an NVLink domain does."""
    if len(world.processes) == 1:
        return "none"
    hosts = {start.facts[process].host for process in world.processes}
    return "files" if len(hosts) == 1 else "fabric"
