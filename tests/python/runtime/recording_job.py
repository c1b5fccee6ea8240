"""A GPU job of threads, with one store for its processes and a runtime that records its calls."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from xla_shmem.gpu.nvml import Fabric
from xla_shmem.gpu.process_facts import GpuFacts, OpenGpu, ProcessFacts
from xla_shmem.options import resolve
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.gpu_runtime import Runtime
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.store import LocalStore


class RecordingRuntime(Runtime):
    """Records its calls.

    Args:
      bus_ids: GPUs of the process; equal ones are shared.
      host: its host.
      start_error: what NVSHMEM's start fails with.
      offset: of the arena in NVSHMEM's heap.
      free_bytes: memory of its GPU.
      multicast: whether it has multicast memory.
      compute_capability: of its GPU; (0, 0) if it is unknown.
      multiprocessors: of its GPU.
      can_copy_permutes: whether its driver can.
      nvshmem_error: why NVSHMEM cannot be loaded.
      heap_error: why the driver does not make its memory.
      join_error: why the memory of the others cannot be mapped.
      why_no_multicast: why its GPUs cannot be added to the multicast memory of the driver's heap.
    """

    def __init__(
        self,
        *bus_ids: str,
        host: str = "one",
        start_error: str = "",
        offset: int = 512,
        free_bytes: int = 80 << 30,
        multicast: bool = True,
        compute_capability: tuple[int, int] = (0, 0),
        multiprocessors: int = 132,
        can_copy_permutes: bool = True,
        nvshmem_error: str = "",
        heap_error: str = "",
        join_error: str = "",
        why_no_multicast: str = "",
    ) -> None:
        # Behind switches, all GPUs of a host reach one another.
        gpus = tuple(GpuFacts(bus_id, switch_links=18, compute_capability=compute_capability) for bus_id in bus_ids)
        self._facts = ProcessFacts(host, gpus, imex_channels=1)
        self._start_error = start_error
        self._offset = offset
        self._free_bytes = free_bytes
        self._multiprocessors = multiprocessors
        self._can_copy_permutes = can_copy_permutes
        self._multicast = multicast
        self._nvshmem_error = nvshmem_error
        self._heap_error = heap_error
        self._join_error = join_error
        self._why_no_multicast = why_no_multicast
        self.heaps: list[tuple[Any, ...]] = []
        self.joined: list[tuple[Any, ...]] = []
        self.multicast_opened: list[int] = []
        self.dropped = 0
        self.with_nvshmem: list[bool] = []
        self.uses_multimem = False
        self.settings: dict[str, str] = {}
        self.settings_at_id: dict[str, str] | None = None
        self.ended: list[str] = []
        self.opened: list[int] = []
        self.started: list[dict[str, Any]] = []
        self.admitted: list[tuple[dict[int, list[int]], int]] = []
        self.observed: list[tuple[int, list[int], dict[str, Any]]] = []
        self.observed_pes: list[int] = []

    def facts(self, ordinals: Sequence[int] | None) -> ProcessFacts:  # type: ignore[override]
        return self._facts

    def open(self, options: Any, ordinal: int, cuda: int, with_nvshmem: bool = True) -> OpenGpu:
        self.opened.append(ordinal)
        self.with_nvshmem.append(with_nvshmem)
        error = self._nvshmem_error if with_nvshmem else ""
        return OpenGpu(self._free_bytes, self._multiprocessors, self._can_copy_permutes, error)

    def observe(self, process: int, processes: Sequence[int], pes: Sequence[int], **what: Any) -> list[str]:  # type: ignore[override]
        self.observed.append((process, list(processes), what))
        self.observed_pes = list(pes)
        return []

    def make_heap(self, *arguments: Any) -> str:  # type: ignore[override]
        self.heaps.append(arguments)
        if self._heap_error:
            raise RuntimeError(self._heap_error)
        return f"note of {self._facts.gpus[0].bus_id}"

    def join_heap(self, *arguments: Any) -> str:  # type: ignore[override]
        self.joined.append(arguments)
        if self._join_error:
            raise RuntimeError(self._join_error)
        return self._why_no_multicast

    def open_multicast(self, world: int) -> None:  # type: ignore[override]
        assert not self.started, "the arena looks for multicast memory when it starts"
        self.multicast_opened.append(world)

    def drop_heaps(self) -> None:  # type: ignore[override]
        self.dropped += 1

    def report(self) -> None:  # type: ignore[override]
        pass

    def set_nvshmem(self, settings: Mapping[str, str]) -> None:
        self.settings.update(settings)

    def end(self, reason: str) -> None:
        self.ended.append(reason)

    def unique_id(self) -> bytes:  # type: ignore[override]
        self.settings_at_id = dict(self.settings)
        return b"id of " + self._facts.gpus[0].bus_id.encode()

    def start(self, **arguments: Any) -> int:  # type: ignore[override]
        self.started.append(arguments)
        if self._start_error:
            raise RuntimeError(self._start_error)
        return self._offset

    def has_multicast(self) -> bool:  # type: ignore[override]
        return self._multicast

    def use_multimem(self) -> None:  # type: ignore[override]
        assert not self.admitted, "a collective may run already"
        self.uses_multimem = True

    def admit(self, worlds: dict[int, list[int]], fingerprint: int) -> None:  # type: ignore[override]
        self.admitted.append((worlds, fingerprint))


def run_job(
    runtimes: Sequence[RecordingRuntime],
    before: Callable[[int], None] = lambda process: None,
    timeout_s: float = 10,
    **options: Any,
) -> list[JobTopology]:
    """Returns the result of every process of a job; calls `before(process)` before its start."""
    store = LocalStore()
    topologies: dict[int, JobTopology] = {}
    owners = [process for process, runtime in enumerate(runtimes) for _ in runtime._facts.gpus]
    devices = [SimpleNamespace(id=number, process_index=process) for number, process in enumerate(owners)]

    def body(process: int) -> None:
        before(process)
        chosen = dataclasses.replace(resolve({}, {}), **{"records": "off", **options})
        job = GpuJob(chosen, store, process, len(runtimes), runtimes[process], timeout_s)
        job.start(list(range(owners.count(process))), cuda=13)
        topologies[process] = job.topology(devices)

    threads = [threading.Thread(target=body, args=(process,)) for process in range(len(runtimes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [topologies[process] for process in range(len(runtimes))]


def fabric_job(hosts: str) -> list[RecordingRuntime]:
    """Returns a process for each host in the list; all GPUs are in one NVLink fabric."""
    runtimes = [RecordingRuntime(f"0000:0{index}:00.0", host=host) for index, host in enumerate(hosts)]
    for runtime in runtimes:
        (gpu,) = runtime._facts.gpus
        fabric = Fabric("00000000-0000-0000-0000-000000000001", 1, "completed")
        runtime._facts = dataclasses.replace(runtime._facts, gpus=(dataclasses.replace(gpu, fabric=fabric),))
    return runtimes
