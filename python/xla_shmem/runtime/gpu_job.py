"""Starts xla-shmem on this process's GPUs, in worlds with the GPUs that they reach, agreed on by all processes.

Everything except `topology` runs inside the plugin's ``initialize()``, before XLA's GPU client exists: XLA's client
reserves most of the GPU's memory, so the symmetric arena must be allocated first. No process starts unless all will:
each process announces its GPUs and libraries, process 0 gives the verdict (by the rounds of a patched XLA,
xla_patch/runtime/job_rounds.h), and each process records the outcome of its start. On failure, all processes have the
same reason.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from xla_shmem import _core
from xla_shmem.gpu.kernels import KernelError
from xla_shmem.gpu.nvlink_domains import GpuPlace, place_gpus
from xla_shmem.gpu.process_facts import Announcement, OpenGpu, ProcessFacts
from xla_shmem.gpu.worlds import Heap, choose_heap, job_worlds
from xla_shmem.options import Options
from xla_shmem.runtime import nvshmem_settings
from xla_shmem.runtime.driver_heap_start import make_driver_heaps, start_on_driver_heaps
from xla_shmem.runtime.flight_records import begin_trace, record_directory
from xla_shmem.runtime.gpu_runtime import Runtime, needs_nvshmem, puts_of
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.nvshmem_start import NvshmemStart, why_arenas_differ
from xla_shmem.runtime.store import STORE_TIMEOUT_S, Store
from xla_shmem.runtime.world_start import StartingProcess

logger = logging.getLogger(__name__)

_PREFIX = "xla_shmem/gpu/4"


class GpuJob:
    """The start and topology of this process's GPUs. There is one in each process."""

    def __init__(
        self,
        options: Options,
        store: Store,
        process: int,
        processes: int,
        runtime: Runtime | None = None,
        timeout_s: float = STORE_TIMEOUT_S,
    ) -> None:
        self._options = options
        self._store = store
        self._process = process
        self._processes = processes
        self._runtime = runtime or Runtime()
        self._timeout_s = timeout_s
        self._reason = "the GPU path of this process has not been started"
        self._places: list[GpuPlace] = []
        self._start: StartingProcess | None = None  # from the agreement on
        self._heap: Heap = "nvshmem"
        self._gpu = ""
        self._topology: JobTopology | None = None

    @property
    def gpus(self) -> int:
        """GPUs of this process on which collectives may run; 0 if the job has not started."""
        return 0 if self._reason or self._start is None else len(self._start.ordinals)

    def start(
        self,
        ordinals: Sequence[int] | None,
        cuda: int,
        error: str = "",
        compiler: str = "",
        why_ending: Callable[[], str] = str,
    ) -> None:
        """Announces, agrees, and starts all of this process's GPUs. Never raises: a failure is kept as the reason.

        Args:
          ordinals: CUDA ordinals of this process's devices, None for all visible ones.
          cuda: release of JAX's CUDA plugin, 12 or 13.
          error: why this process cannot take part, "" if it can.
          compiler: release of XLA's GPU compiler. Different releases order and combine collectives differently.
          why_ending: asked when all processes have announced; "" if the job goes on. The process that ends says why.
        """
        begin_trace(self._options, self._process)
        # JAX numbers a process's devices by their ordinals.
        ordinals = None if ordinals is None else sorted(ordinals)
        facts, gpus, error = self._open(ordinals, cuda, error)
        self._reason, texts = _core.agree_in_job(
            self._store,
            self._process,
            self._processes,
            f"{_PREFIX}/",
            self._timeout_s,
            error=error,
            agreement=self._agreement(compiler),
            facts=Announcement(facts, gpus, puts_of(self._options)).to_json(),
        )
        if not self._reason:
            announced = [Announcement.from_json(text) for text in texts]
            own = range(len(facts.gpus)) if ordinals is None else ordinals
            self._reason = self._start_worlds(announced, own)
        if self._reason and self._process == 0 and not why_ending():
            logger.warning("xla_shmem: %s; collectives between GPUs stay on the default backend", self._reason)

    def topology(self, devices: Sequence[Any]) -> JobTopology:
        """Returns the job's GPUs and the transport between them.

        Args:
          devices: all GPUs of the job, from ``jax.devices("cuda")``.

        Raises:
          RuntimeError: JAX has another number of GPUs than was announced.
        """
        if self._topology is None:
            self._topology = self._make_topology(devices)
        return self._topology

    def _open(
        self, ordinals: Sequence[int] | None, cuda: int, error: str
    ) -> tuple[ProcessFacts, tuple[OpenGpu, ...], str]:
        facts = self._runtime.facts(ordinals)
        error = error or facts.error or ("" if facts.gpus else "it has no GPU")
        if error:
            return facts, (), error
        # NVSHMEM has one PE a process.
        with_nvshmem = needs_nvshmem(self._options) or (self._options.gpu_heap == "auto" and len(facts.gpus) == 1)
        try:
            opened = [
                self._runtime.open(self._options, ordinal, cuda, with_nvshmem)
                for ordinal in (range(len(facts.gpus)) if ordinals is None else ordinals)
            ]
        except (RuntimeError, KernelError) as failure:
            return facts, (), str(failure)
        return facts, tuple(opened), ""

    def _agreement(self, compiler: str) -> str:
        from xla_shmem.version import __version__

        return (
            f"xla-shmem {__version__}, XLA:GPU of jax {compiler}, {self._options.gpu_key()}"
            f" {nvshmem_settings.chosen_by_user(os.environ)}"
        ).rstrip()

    def _start_worlds(self, announced: Sequence[Announcement], ordinals: Sequence[int]) -> str:
        """Starts this process's devices. Returns "" or why the job does not start, the same in all processes; what
        fails later in one process is in the store."""
        self._heap, reason = choose_heap(self._options.gpu_heap, announced)
        all_facts = [one.facts for one in announced]
        self._places = place_gpus(all_facts, [len(facts.gpus) for facts in all_facts], self._options.nvlink_domain)
        self._gpu = _generation(all_facts)
        self._start = start = StartingProcess(
            self._options,
            self._store,
            _PREFIX,
            self._process,
            self._runtime,
            self._timeout_s,
            announced,
            job_worlds(self._places),
            ordinals,
        )
        if reason:
            return reason
        if self._heap == "driver":
            reason, notes = make_driver_heaps(start, self._processes)
            if reason:
                self._runtime.drop_heaps()
                return reason
            error = start_on_driver_heaps(start, notes)
        else:
            error = NvshmemStart(start).run()
        if not error:
            self._observe(start)
        self._store.propose(f"{_PREFIX}/started/{self._process}", error)
        if not error and self._process == 0:
            logger.info(
                "xla_shmem: symmetric memory is %s, for %d GPUs in %d processes",
                "NVSHMEM's" if self._heap == "nvshmem" else "the CUDA driver's",
                len(self._places),
                self._processes,
            )
        return ""

    def _observe(self, start: StartingProcess) -> None:
        job = self._store.propose(f"{_PREFIX}/job", f"gpu-{secrets.token_hex(8)}")
        facts = start.facts
        here = [process for process, other in enumerate(facts) if other.host == facts[self._process].host]
        troubles = self._runtime.observe(
            self._process,
            here,
            [pe for pe, place in enumerate(self._places) if place.process == self._process],
            record_directory=record_directory(self._options, job),
            statistics=bool(self._options.stats),
            trace_file=self._options.trace or "",
        )
        for trouble in troubles:
            logger.warning("xla_shmem: %s", trouble)
        # Exit handlers of C++ run when the driver may be gone, and not after Ctrl-C.
        atexit.register(self._runtime.report)
        if self._options.gpu_reduce == "multimem":
            self._store.set(f"{_PREFIX}/multicast/{self._process}", "yes" if self._runtime.has_multicast() else "no")

    def _make_topology(self, devices: Sequence[Any]) -> JobTopology:
        ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
        reason = self._reason or self._why_not_started()
        if not self._places:
            # The GPUs' places are unknown; the decisions only need to be equal in all processes.
            locations = [
                (device.id, device.process_index, device.process_index, 0, pe) for pe, device in enumerate(ordered)
            ]
            return JobTopology(_core.Topology(locations), _core.Transport(False, reason, None))
        if len(ordered) != len(self._places):
            raise RuntimeError(
                f"JAX has {len(ordered)} GPUs and the processes of the job announced {len(self._places)}"
            )
        locations = [
            (device.id, device.process_index, place.host, place.domain, pe)
            for pe, (device, place) in enumerate(zip(ordered, self._places, strict=True))
        ]
        topology = _core.Topology(locations)
        if reason or self._start is None:
            self._runtime.drop_heaps()
            return JobTopology(topology, _core.Transport(False, reason, None), self._gpu)
        if self._options.gpu_reduce == "multimem":
            self._choose_multimem(self._start)
        worlds = {
            device: list(world.pes) for world in self._start.own_worlds() for _, device in self._start.devices_of(world)
        }
        self._runtime.admit(worlds, topology.fingerprint)
        reach = {device.id: place.reach for device, place in zip(ordered, self._places, strict=True)}
        return JobTopology(topology, _core.gpu_transport(reach), self._gpu)

    def _why_not_started(self) -> str:
        for process in range(self._processes):
            key = f"{_PREFIX}/started/{process}"
            try:
                # XLA's GPU client exists, so every living process has been through `start`.
                error = self._store.wait(key, self._timeout_s)
            except TimeoutError:
                error = self._store.propose(key, f"it has not started its GPUs within {self._timeout_s:g} s")
            if error:
                return f"process {process}: {error}"
        if self._heap == "driver" or self._start is None:
            return ""
        return why_arenas_differ(self._start)

    def _choose_multimem(self, start: StartingProcess) -> None:
        """Lets the NVLink switch make reductions, if all processes of this process's worlds have multicast memory."""
        processes = sorted({process for world in start.own_worlds() for process in world.processes})
        without = [process for process in processes if self._store.wait(f"{_PREFIX}/multicast/{process}") != "yes"]
        if not without:
            self._runtime.use_multimem()
        elif self._process == processes[0]:
            logger.warning(
                "xla_shmem: XLA_SHMEM_GPU_REDUCE=multimem: process %d has no multicast memory (NVLink SHARP and GPUs"
                " of compute capability 9.0), so the kernel that"
                " needs none reduces in processes %s",
                without[0],
                ", ".join(map(str, processes)),
            )


def _generation(facts: Sequence[ProcessFacts]) -> str:
    """Returns the generation of the job's GPUs; "" if they differ or have no cost model."""
    found = {_core.gpu_generation(gpu.compute_capability[0]) for one in facts for gpu in one.gpus}
    return found.pop() if len(found) == 1 else ""
