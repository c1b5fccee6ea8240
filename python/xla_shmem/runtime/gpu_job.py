"""Starts NVSHMEM on this process's GPU, in a world with the GPUs that it reaches, agreed on by all processes.

Everything except `topology` runs inside the plugin's ``initialize()``, before XLA's GPU client exists: XLA's client
reserves most of the GPU's memory, so the symmetric arena must be allocated first. NVSHMEM's start is collective, so no
process may begin it unless all will: each process announces its GPUs and libraries, process 0 gives the verdict (by the
rounds of a patched XLA, xla_patch/runtime/job_rounds.h), and each process records the outcome of its start. On failure,
all processes have the same reason. All that can fail in one process alone (libraries, device code, memory) is tried or
checked before. If NVSHMEM's start still does not end, the process ends with the reason.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.kernels import KernelError, load_kernels
from xla_shmem.gpu.nvlink_domains import GpuPlace, any_over_pcie, place_gpus
from xla_shmem.gpu.nvshmem_worlds import World, nvshmem_worlds, why_world_cannot_start
from xla_shmem.gpu.process_facts import Announcement, ProcessFacts, read_process_facts
from xla_shmem.options import Options
from xla_shmem.runtime import nvshmem_settings
from xla_shmem.runtime.flight_records import begin_trace, record_directory
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.start_lock import starting_alone
from xla_shmem.runtime.store import STORE_TIMEOUT_S, Store

logger = logging.getLogger(__name__)

_PREFIX = "xla_shmem/gpu/3"

#: NVSHMEM's start has no time limit of its own. After this many store timeouts the process ends.
_START_LIMIT = 3

#: Exit status of a process that ends because it cannot go on (EX_SOFTWARE), as of the watchdog.
_EXIT_STUCK = 70


class OpenGpu(NamedTuple):
    """What a process announces of the GPU that it has opened; see `Announcement`."""

    free_bytes: int = 0
    multiprocessors: int = 0
    can_copy_permutes: bool = True


class Runtime:
    """The calls into the C++ runtime. Tests replace them."""

    facts = staticmethod(read_process_facts)
    unique_id = staticmethod(_core.gpu_unique_id)
    start = staticmethod(_core.gpu_start)
    has_multicast = staticmethod(_core.gpu_has_multicast)
    use_multimem = staticmethod(_core.gpu_use_multimem)
    observe = staticmethod(_core.gpu_observe)
    report = staticmethod(_core.gpu_report)
    admit = staticmethod(_core.gpu_admit)

    def open(self, options: Options, ordinal: int, cuda: int) -> OpenGpu:
        """Opens libraries and device, and loads the device code.

        Raises:
          RuntimeError: a library, the driver or the device is missing or lacks what the options need.
        """
        search = libraries.nvshmem(cuda, options.nvshmem_library)
        for path, reason in search.rejected:
            logger.warning("xla_shmem: ignoring %s: %s", path, reason)
        found = _core.gpu_open(search.paths, ordinal, puts=_puts(options), permute=options.gpu_permute)
        logger.info("xla_shmem: NVSHMEM %s from %s", found["nvshmem_version"], found["nvshmem_path"])
        _core.gpu_load_kernels(self.compile(found["compute_capability"], cuda))
        return OpenGpu(found["free_bytes"], found["multiprocessors"], found["can_copy_permutes"])

    def compile(self, compute_capability: tuple[int, int], cuda: int) -> bytes:
        """Returns the device code for a GPU, compiled now or for an earlier job.

        Raises:
          KernelError: NVRTC is missing or does not compile it.
        """
        return load_kernels(compute_capability, libraries.nvrtc(cuda).paths)

    def set_nvshmem(self, settings: Mapping[str, str]) -> None:
        """Sets NVSHMEM's variables, unless the user has."""
        nvshmem_settings.apply(settings, os.environ)

    def end(self, reason: str) -> None:
        """Ends this process, whose main thread does not return from NVSHMEM's start."""
        sys.stderr.write(f"xla_shmem: {reason}; the process ends\n")
        sys.stderr.flush()
        os._exit(_EXIT_STUCK)


class GpuJob:
    """The NVSHMEM start and topology of this process. There is one in each process."""

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
        self._worlds: list[World] = []
        self._gpu = ""
        self._multimem = options.gpu_reduce == "multimem"
        self._topology: JobTopology | None = None

    def start(
        self,
        ordinals: Sequence[int] | None,
        cuda: int,
        error: str = "",
        compiler: str = "",
        why_ending: Callable[[], str] = str,
    ) -> None:
        """Announces, agrees, and starts NVSHMEM. Never raises: a failure is kept as the reason.

        Args:
          ordinals: CUDA ordinals of this process's devices, None for all visible ones.
          cuda: release of JAX's CUDA plugin, 12 or 13.
          error: why this process cannot take part, "" if it can.
          compiler: release of XLA's GPU compiler. Different releases order and combine collectives differently.
          why_ending: asked when all processes have announced; "" if the job goes on. The process that ends says why.
        """
        begin_trace(self._options, self._process)
        facts, gpu, error = self._open(ordinals, cuda, error)
        self._reason, texts = _core.agree_in_job(
            self._store,
            self._process,
            self._processes,
            f"{_PREFIX}/",
            self._timeout_s,
            error=error,
            agreement=self._agreement(compiler),
            facts=Announcement(facts, *gpu).to_json(),
        )
        if not self._reason:
            announced = [Announcement.from_json(text) for text in texts]
            all_facts = [announcement.facts for announcement in announced]
            counts = [len(facts.gpus) for facts in all_facts]
            self._places = place_gpus(all_facts, counts, self._options.nvlink_domain)
            self._worlds = nvshmem_worlds(self._places)
            self._gpu = _generation(all_facts)
            self._store.propose(f"{_PREFIX}/started/{self._process}", self._start_world(announced))
        elif self._process == 0 and not why_ending():
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

    def _open(self, ordinals: Sequence[int] | None, cuda: int, error: str) -> tuple[ProcessFacts, OpenGpu, str]:
        facts = self._runtime.facts(ordinals)
        error = error or facts.error
        if not error and len(facts.gpus) != 1:
            error = f"it has {len(facts.gpus)} GPUs, but NVSHMEM has one PE a process: start one process per GPU"
        if error:
            return facts, OpenGpu(), error
        try:
            return facts, self._runtime.open(self._options, ordinals[0] if ordinals else 0, cuda), ""
        except (RuntimeError, KernelError) as failure:
            return facts, OpenGpu(), str(failure)

    def _agreement(self, compiler: str) -> str:
        from xla_shmem.version import __version__

        return (
            f"xla-shmem {__version__}, XLA:GPU of jax {compiler}, {self._options.gpu_key()}"
            f" {nvshmem_settings.chosen_by_user(os.environ)}"
        ).rstrip()

    def _own_world(self) -> World:
        return next(world for world in self._worlds if self._process in world.processes)

    def _start_world(self, announced: Sequence[Announcement]) -> str:
        """Joins this process's world; returns "" or why that failed."""
        world = self._own_world()
        facts = [announcement.facts for announcement in announced]
        multicast = self._asks_for_multicast(world, facts)
        arena_bytes = self._options.heap_size or _core.gpu_arena_bytes(len(world.processes), multicast)
        hosts = len({facts[process].host for process in world.processes})
        settings = nvshmem_settings.world_settings(arena_bytes, hosts, multicast)
        error = why_world_cannot_start(
            world, facts, [one.free_bytes for one in announced], nvshmem_settings.heap_bytes(settings, os.environ)
        )
        if error:
            return error
        self._runtime.set_nvshmem(settings)
        key = f"{_PREFIX}/world/{world.number}"
        ended = threading.Event()
        threading.Thread(target=self._watch_start, args=(world, ended), daemon=True).start()
        alone = contextlib.ExitStack()
        try:
            if world.processes[0] == self._process:
                self._store.set(key, self._make_unique_id(alone if _share_gpus(world, facts) else None))
            note = json.loads(self._store.wait(key, self._timeout_s))
            if note["error"]:
                return f"process {world.processes[0]}: {note['error']}"
            offset = self._runtime.start(
                pe=world.processes.index(self._process),
                n_pes=len(world.processes),
                unique_id=base64.b64decode(note["id"]),
                arena_bytes=arena_bytes,
                puts=_puts(self._options),
                deadline_s=self._options.deadline,
                permute=self._carrier_of_permutes(world, announced),
                multiprocessors=min(announced[process].multiprocessors for process in world.processes),
                multimem=multicast,
                pcie=any_over_pcie([facts[process].gpus[0] for process in world.processes]),
                timed=bool(self._options.stats or self._options.trace),
            )
            self._observe(facts)
            if self._multimem:
                self._store.set(
                    f"{_PREFIX}/multicast/{self._process}", "yes" if self._runtime.has_multicast() else "no"
                )
            self._store.set(f"{_PREFIX}/offset/{self._process}", str(offset))
        except RuntimeError as failure:
            return str(failure)
        except TimeoutError:
            return f"process {world.processes[0]} has not made a unique id of NVSHMEM within {self._timeout_s:g} s"
        finally:
            alone.close()
            ended.set()
        return ""

    def _carrier_of_permutes(self, world: World, announced: Sequence[Announcement]) -> str:
        """Returns option `gpu_permute`, or "kernel" if a process of the world has no other; equal in all of them."""
        without = [process for process in world.processes if not announced[process].can_copy_permutes]
        if not without or self._options.gpu_permute == "kernel":
            return self._options.gpu_permute
        if self._process == world.processes[0]:
            logger.info(
                "xla_shmem: permutes of all sizes are kernels, because the driver of process %d has no stream memory"
                " operations on NVSHMEM's memory (CUDA 12.5)",
                without[0],
            )
        return "kernel"

    def _observe(self, facts: Sequence[ProcessFacts]) -> None:
        job = self._store.propose(f"{_PREFIX}/job", f"gpu-{secrets.token_hex(8)}")
        here = [process for process, other in enumerate(facts) if other.host == facts[self._process].host]
        troubles = self._runtime.observe(
            self._process,
            here,
            record_directory=record_directory(self._options, job),
            statistics=bool(self._options.stats),
            trace_file=self._options.trace or "",
        )
        for trouble in troubles:
            logger.warning("xla_shmem: %s", trouble)
        # Exit handlers of C++ run when the driver may be gone, and not after Ctrl-C.
        atexit.register(self._runtime.report)

    def _asks_for_multicast(self, world: World, facts: Sequence[ProcessFacts]) -> bool:
        """Returns whether NVSHMEM is to make multicast memory; equal in all processes of a world.

        False on GPUs that have none, and for processes that share a GPU, whose start may fail with it.
        """
        gpus = [facts[process].gpus[0] for process in world.processes]
        unknown = (0, 0)
        able = all(gpu.compute_capability == unknown or gpu.compute_capability >= (9, 0) for gpu in gpus)
        return self._multimem and able and not _share_gpus(world, facts)

    def _watch_start(self, world: World, ended: threading.Event) -> None:
        """Ends this process if NVSHMEM's start lasts too long, and soon if another process of the world has failed."""
        if ended.wait(self._timeout_s):
            return
        logger.error("xla_shmem: %s and still waits", self._late(world, self._timeout_s))
        give_up = time.monotonic() + (_START_LIMIT - 1) * self._timeout_s
        while not ended.wait(min(1.0, self._timeout_s / 10)):
            if self._failures(world) or time.monotonic() > give_up:
                self._runtime.end(self._late(world, self._timeout_s))
                return

    def _failures(self, world: World) -> str:
        notes = {process: self._store.get(f"{_PREFIX}/started/{process}") for process in world.processes}
        return "; ".join(f"process {process}: {note}" for process, note in notes.items() if note)

    def _late(self, world: World, seconds: float) -> str:
        waiting = [p for p in world.processes if self._store.get(f"{_PREFIX}/started/{p}") is None]
        why = self._failures(world) or (
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
                alone.enter_context(starting_alone(self._timeout_s))
            return json.dumps({"id": base64.b64encode(self._runtime.unique_id()).decode(), "error": ""})
        except RuntimeError as failure:
            return json.dumps({"id": "", "error": str(failure)})

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
        if reason:
            return JobTopology(topology, _core.Transport(False, reason, None), self._gpu)
        if self._multimem:
            self._choose_multimem()
        # One GPU a process: the job's PE is the number of the process.
        self._runtime.admit(list(self._own_world().processes), topology.fingerprint)
        reach = {device.id: place.reach for device, place in zip(ordered, self._places, strict=True)}
        return JobTopology(topology, _core.gpu_transport(reach), self._gpu)

    def _why_not_started(self) -> str:
        for process in range(self._processes):
            key = f"{_PREFIX}/started/{process}"
            try:
                # XLA's GPU client exists, so every living process has been through `start`.
                error = self._store.wait(key, self._timeout_s)
            except TimeoutError:
                error = self._store.propose(key, f"it has not started NVSHMEM within {self._timeout_s:g} s")
            if error:
                return f"process {process}: {error}"
        return self._why_arenas_differ()

    def _choose_multimem(self) -> None:
        """Lets the NVLink switch make reductions, if all processes of this world have multicast memory."""
        processes = self._own_world().processes
        without = [process for process in processes if self._store.wait(f"{_PREFIX}/multicast/{process}") != "yes"]
        if not without:
            self._runtime.use_multimem()
        elif self._process == processes[0]:
            logger.warning(
                "xla_shmem: XLA_SHMEM_GPU_REDUCE=multimem: process %d has no multicast memory (NVLink SHARP and GPUs of"
                " compute capability 9.0), so the kernel that needs none reduces in processes %s",
                without[0],
                ", ".join(map(str, processes)),
            )

    def _why_arenas_differ(self) -> str:
        """Returns "" if all arenas of a world lie at one offset in NVSHMEM's heap, or a sentence that names one.

        Only then an address of one PE means the same object on all.
        """
        for world in self._worlds:
            offsets = [int(self._store.wait(f"{_PREFIX}/offset/{process}")) for process in world.processes]
            for process, offset in zip(world.processes, offsets, strict=True):
                if offset != offsets[0]:
                    return (
                        f"process {process}: its arena lies {offset} bytes behind the start of NVSHMEM's heap, and"
                        f" {offsets[0]} bytes in process {world.processes[0]}: NVSHMEM has other settings there"
                        " (NVSHMEM_INFO=1 prints those of PE 0)"
                    )
        return ""


def _share_gpus(world: World, facts: Sequence[ProcessFacts]) -> bool:
    gpus = [(facts[process].host, facts[process].gpus[0].bus_id) for process in world.processes]
    return len(set(gpus)) < len(gpus)


def _puts(options: Options) -> str:
    return "nvshmem" if options.gpu_puts == "nvshmem" else "driver"


def _generation(facts: Sequence[ProcessFacts]) -> str:
    """Returns the generation of the job's GPUs; "" if they differ or have no cost model."""
    found = {_core.gpu_generation(gpu.compute_capability[0]) for one in facts for gpu in one.gpus}
    return found.pop() if len(found) == 1 else ""
