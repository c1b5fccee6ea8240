"""The start of NVSHMEM in a process with one GPU.

It is collective and cannot be undone, so no process begins it unless all will, and all that can fail in one alone is
checked before. If it still does not end, the process ends with the reason.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import threading
import time

from xla_shmem.gpu.worlds import why_world_cannot_start
from xla_shmem.runtime import nvshmem_settings
from xla_shmem.runtime.start_lock import starting_alone
from xla_shmem.runtime.world_start import StartingProcess

logger = logging.getLogger(__name__)

#: NVSHMEM's start has no time limit of its own. After this many store timeouts the process ends.
_START_LIMIT = 3


class NvshmemStart:
    """The start of this process's device in its NVSHMEM world."""

    def __init__(self, start: StartingProcess) -> None:
        self._start = start
        (self._world,) = start.own_worlds()

    def run(self) -> str:
        """Joins the world; returns "" or why that failed."""
        start, world = self._start, self._world
        multicast = start.asks_for_multicast(world)
        hosts = len({start.facts[process].host for process in world.processes})
        settings = nvshmem_settings.world_settings(start.arena_bytes(world, multicast), hosts, multicast)
        heap_bytes = nvshmem_settings.heap_bytes(settings, os.environ)
        if error := why_world_cannot_start(world, start.announced, "nvshmem", heap_bytes):
            return error
        start.runtime.set_nvshmem(settings)
        ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended,), daemon=True).start()
        alone = contextlib.ExitStack()
        try:
            return self._join(multicast, alone)
        finally:
            alone.close()
            ended.set()

    def _join(self, multicast: bool, alone: contextlib.ExitStack) -> str:
        start, world = self._start, self._world
        key = f"{start.prefix}/world/{world.number}"
        first = world.processes[0]
        try:
            if first == start.process:
                start.store.set(key, self._make_unique_id(alone if start.share_gpus(world) else None))
            note = json.loads(start.store.wait(key, start.timeout_s))
            if note["error"]:
                return f"process {first}: {note['error']}"
            ((pe, device),) = start.devices_of(world)
            offset = start.runtime.start(
                **start.start_arguments(world, pe, multicast), unique_id=base64.b64decode(note["id"]), device=device
            )
            start.store.set(f"{start.prefix}/offset/{start.process}", str(offset))
        except RuntimeError as failure:
            return str(failure)
        except TimeoutError:
            return f"process {first} has not made a unique id of NVSHMEM within {start.timeout_s:g} s"
        return ""

    def _watch(self, ended: threading.Event) -> None:
        """Ends this process if NVSHMEM's start lasts too long, and soon if another process of the world has failed."""
        timeout_s = self._start.timeout_s
        if ended.wait(timeout_s):
            return
        logger.error("xla_shmem: %s and still waits", self._late(timeout_s))
        give_up = time.monotonic() + (_START_LIMIT - 1) * timeout_s
        while not ended.wait(min(1.0, timeout_s / 10)):
            if self._failures() or time.monotonic() > give_up:
                self._start.runtime.end(self._late(timeout_s))
                return

    def _outcome(self, process: int) -> str | None:
        return self._start.store.get(f"{self._start.prefix}/started/{process}")

    def _failures(self) -> str:
        notes = {process: self._outcome(process) for process in self._world.processes}
        return "; ".join(f"process {process}: {note}" for process, note in notes.items() if note)

    def _late(self, seconds: float) -> str:
        waiting = [process for process in self._world.processes if self._outcome(process) is None]
        why = self._failures() or (
            f"processes {', '.join(map(str, waiting))} have not finished, NVSHMEM_DEBUG=INFO shows their progress"
        )
        return f"NVSHMEM has not started within {seconds:g} s; {why}"

    def _make_unique_id(self, alone: contextlib.ExitStack | None) -> str:
        """Makes the note for the other processes of the world.

        Args:
          alone: keeps other jobs of this host from starting until it is closed; None: no need.
        """
        try:
            if alone is not None:
                alone.enter_context(starting_alone(self._start.timeout_s))
            return json.dumps({"id": base64.b64encode(self._start.runtime.unique_id()).decode(), "error": ""})
        except RuntimeError as failure:
            return json.dumps({"id": "", "error": str(failure)})


def why_arenas_differ(start: StartingProcess) -> str:
    """Returns "" if all arenas of a world lie at one offset in NVSHMEM's heap, or a sentence that names one.

    Only then an address of one PE means the same object on all.
    """
    for world in start.worlds:
        offsets = [int(start.store.wait(f"{start.prefix}/offset/{process}")) for process in world.processes]
        for process, offset in zip(world.processes, offsets, strict=True):
            if offset != offsets[0]:
                return (
                    f"process {process}: its arena lies {offset} bytes behind the start of NVSHMEM's heap, and"
                    f" {offsets[0]} bytes in process {world.processes[0]}: NVSHMEM has other settings there"
                    " (NVSHMEM_INFO=1 prints those of PE 0)"
                )
    return ""
