"""Bring this process's GPU into the job: an NVSHMEM world with the GPUs it reaches, agreed on by all processes.

All of it but `topology` runs inside the plugin's ``initialize()``, before XLA's GPU client exists: XLA takes most of
the GPU's memory when it comes up, and the symmetric arena must be there first. NVSHMEM's start is collective, so nobody
may go into it unless everybody will: each process announces what it has, process 0 says whether that is enough, and
each leaves a note of how its start went. Whatever is in the way ends in one sentence that is equal in all processes.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.kernels import KernelError, compile_kernels
from xla_shmem.gpu.nvlink_domains import GpuPlace, place_gpus
from xla_shmem.gpu.nvshmem_worlds import World, nvshmem_worlds
from xla_shmem.gpu.process_facts import ProcessFacts, read_process_facts
from xla_shmem.options import Options
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.store import STORE_TIMEOUT_S, Store

logger = logging.getLogger(__name__)

_PREFIX = "xla_shmem/gpu/1"


@dataclasses.dataclass(frozen=True)
class Announcement:
    """What one process tells the others.

    Attributes:
      facts: its GPUs.
      error: why it cannot take part, "" if it can.
      agreement: version and options that must be equal everywhere.
    """

    facts: ProcessFacts
    error: str
    agreement: str

    def to_json(self) -> str:
        """Returns text for the store."""
        return json.dumps({"facts": self.facts.to_json(), "error": self.error, "agreement": self.agreement})

    @staticmethod
    def from_json(text: str) -> Announcement:
        """Reads what :meth:`to_json` wrote."""
        value = json.loads(text)
        return Announcement(ProcessFacts.from_json(value["facts"]), value["error"], value["agreement"])


class Runtime:
    """The calls into the C++ runtime, which a test replaces."""

    facts = staticmethod(read_process_facts)
    unique_id = staticmethod(_core.gpu_unique_id)
    start = staticmethod(_core.gpu_start)
    admit = staticmethod(_core.gpu_admit)

    def open(self, options: Options, ordinal: int, cuda: int) -> bytes:
        """Open libraries and device; returns the kernels for it.

        Raises:
          RuntimeError: something is missing.
        """
        search = libraries.nvshmem(cuda, options.nvshmem_library)
        for path, reason in search.rejected:
            logger.warning("xla_shmem: passing over %s: %s", path, reason)
        found = _core.gpu_open(search.paths, ordinal)
        logger.info("xla_shmem: NVSHMEM %s from %s", found["nvshmem_version"], found["nvshmem_path"])
        return self.compile(found["compute_capability"], cuda)

    def compile(self, compute_capability: tuple[int, int], cuda: int) -> bytes:
        """Return the device code for a GPU.

        Raises:
          KernelError: NVRTC is missing or refuses.
        """
        return compile_kernels(compute_capability, libraries.nvrtc(cuda).paths)


class GpuJob:
    """This process's part in the job. One a process."""

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
        self._reason = "the GPU road of this process has not been started"
        self._places: list[GpuPlace] = []
        self._worlds: list[World] = []
        self._topology: JobTopology | None = None

    def start(self, ordinals: Sequence[int] | None, cuda: int, error: str = "", compiler: str = "") -> None:
        """Announce, agree, and start NVSHMEM. What fails is kept as the reason; nothing is raised.

        Args:
          ordinals: CUDA ordinals of this process's devices, None for all visible ones.
          cuda: release of JAX's CUDA plugin, 12 or 13.
          error: why this process cannot take part whatever it has, "" if it can.
          compiler: release of XLA's GPU compiler. Different ones order and combine collectives differently.
        """
        facts, kernels, error = self._open(ordinals, cuda, error)
        own = Announcement(facts, error, self._agreement(compiler))
        self._store.set(f"{_PREFIX}/process/{self._process}", own.to_json())
        self._reason = self._agree()
        if not self._reason:
            announced = [self._announcement(process, self._timeout_s) for process in range(self._processes)]
            all_facts = [announcement.facts for announcement in announced]
            counts = [len(facts.gpus) for facts in all_facts]
            self._places = place_gpus(all_facts, counts, self._options.nvlink_domain)
            self._worlds = nvshmem_worlds(self._places)
            self._store.propose(f"{_PREFIX}/started/{self._process}", self._start_world(all_facts, kernels))
        elif self._process == 0:
            logger.warning("xla_shmem: %s; collectives between GPUs stay on the default backend", self._reason)

    def topology(self, devices: Sequence[Any]) -> JobTopology:
        """The job's GPUs and the transport between them.

        Args:
          devices: all GPUs of the job, as ``jax.devices("cuda")`` has them.

        Raises:
          RuntimeError: JAX has given this process another GPU than was announced.
        """
        if self._topology is None:
            self._topology = self._make_topology(devices)
        return self._topology

    def _open(self, ordinals: Sequence[int] | None, cuda: int, error: str) -> tuple[ProcessFacts, bytes, str]:
        facts = self._runtime.facts(ordinals)
        error = error or facts.error
        if not error and len(facts.gpus) != 1:
            error = f"it has {len(facts.gpus)} GPUs and NVSHMEM one PE a process: start one process per GPU"
        if error:
            return facts, b"", error
        try:
            return facts, self._runtime.open(self._options, ordinals[0] if ordinals else 0, cuda), ""
        except (RuntimeError, KernelError) as failure:
            return facts, b"", str(failure)

    def _agreement(self, compiler: str) -> str:
        from xla_shmem.version import __version__

        return (
            f"xla-shmem {__version__}, XLA:GPU of jax {compiler}, {self._options.decision_key()}"
            f" heap_size={self._options.heap_size} gpu_reduce={self._options.gpu_reduce}"
        )

    def _announcement(self, process: int, timeout_s: float) -> Announcement:
        return Announcement.from_json(self._store.wait(f"{_PREFIX}/process/{process}", timeout_s))

    def _agree(self) -> str:
        """The verdict on all announcements: "" or why nobody may start.

        Process 0 gives it. Whoever has waited for it in vain gives it instead: the first one stands for everybody, for
        a process 0 that comes late too.
        """
        key = f"{_PREFIX}/verdict"
        if self._process == 0:
            return self._store.propose(key, self._judge())
        # Process 0 may itself wait for the others.
        timeout_s = 2 * self._timeout_s
        try:
            return self._store.wait(key, timeout_s)
        except TimeoutError:
            return self._store.propose(key, _absent(0, timeout_s))

    def _judge(self) -> str:
        first: Announcement | None = None
        deadline = time.monotonic() + self._timeout_s
        for process in range(self._processes):
            try:
                # Notes that are there are read, however late it is.
                announcement = self._announcement(process, max(deadline - time.monotonic(), 0.1))
            except TimeoutError:
                return _absent(process, self._timeout_s)
            if announcement.error:
                return f"process {process}: {announcement.error}"
            first = first or announcement
            if announcement.agreement != first.agreement:
                return (
                    f"process {process} has {announcement.agreement} and process 0 has {first.agreement}:"
                    " they must be equal"
                )
        return ""

    def _own_world(self) -> World:
        return next(world for world in self._worlds if self._process in world.processes)

    def _start_world(self, facts: Sequence[ProcessFacts], kernels: bytes) -> str:
        """Joins this process's world; "" or why not."""
        world = self._own_world()
        if world.error:
            return world.error
        key = f"{_PREFIX}/world/{world.number}"
        # NVSHMEM's start has no time limit of its own.
        overdue = threading.Timer(self._timeout_s, self._log_who_is_missing, [world])
        overdue.daemon = True
        overdue.start()
        try:
            if world.processes[0] == self._process:
                self._store.set(key, self._unique_id_note())
            note = json.loads(self._store.wait(key, self._timeout_s))
            if note["error"]:
                return f"process {world.processes[0]}: {note['error']}"
            self._runtime.start(
                pe=world.processes.index(self._process),
                n_pes=len(world.processes),
                unique_id=base64.b64decode(note["id"]),
                arena_bytes=self._options.heap_size or _core.gpu_arena_bytes(len(world.processes)),
                kernels=kernels,
                puts=self._puts(world, facts),
                reduce=self._options.gpu_reduce,
                deadline_s=self._options.deadline,
            )
        except RuntimeError as failure:
            return str(failure)
        except TimeoutError:
            return f"process {world.processes[0]} has made no unique id of NVSHMEM within {self._timeout_s:g} s"
        finally:
            overdue.cancel()
        return ""

    def _log_who_is_missing(self, world: World) -> None:
        notes = {process: self._store.get(f"{_PREFIX}/started/{process}") for process in world.processes}
        failed = "; ".join(f"process {process}: {note}" for process, note in notes.items() if note)
        waiting = ", ".join(str(process) for process, note in notes.items() if note is None)
        logger.error(
            "xla_shmem: NVSHMEM has not started within %g s and waits on; %s",
            self._timeout_s,
            failed or f"processes {waiting} have not got through, NVSHMEM_DEBUG=INFO shows where they are",
        )

    def _unique_id_note(self) -> str:
        try:
            return json.dumps({"id": base64.b64encode(self._runtime.unique_id()).decode(), "error": ""})
        except RuntimeError as failure:
            return json.dumps({"id": "", "error": str(failure)})

    def _puts(self, world: World, facts: Sequence[ProcessFacts]) -> str:
        if self._options.gpu_puts != "auto":
            return self._options.gpu_puts
        gpus = [(facts[process].host, facts[process].gpus[0].bus_id) for process in world.processes]
        # Without MPS, NVSHMEM ends the process when PEs that share a GPU use some of its calls.
        return "driver" if len(set(gpus)) < len(gpus) else "nvshmem"

    def _make_topology(self, devices: Sequence[Any]) -> JobTopology:
        ordered = sorted(devices, key=lambda device: (device.process_index, device.id))
        reason = self._reason or self._why_not_started()
        if not self._places:
            # Nobody knows where the GPUs are; the decisions only need to be equal everywhere.
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
        if reason:
            return JobTopology(topology, _core.Transport(False, reason, None))
        # One GPU a process: the job's PE is the number of the process.
        self._runtime.admit(list(self._own_world().processes), topology.fingerprint)
        reach = {device.id: place.reach for device, place in zip(ordered, self._places, strict=True)}
        return JobTopology(topology, _core.gpu_transport(reach))

    def _why_not_started(self) -> str:
        for process in range(self._processes):
            key = f"{_PREFIX}/started/{process}"
            try:
                # The GPU client is up, so every process has been through `start`, if it is still there.
                error = self._store.wait(key, self._timeout_s)
            except TimeoutError:
                error = self._store.propose(key, f"it has not started NVSHMEM within {self._timeout_s:g} s")
            if error:
                return f"process {process}: {error}"
        return ""


def _absent(process: int, timeout_s: float) -> str:
    return (
        f"process {process} runs without xla-shmem (nothing heard of it within {timeout_s:g} s): set the flag and"
        " install the package in every process"
    )
