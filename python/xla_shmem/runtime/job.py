"""Connects this process to the job: a segment, an agreement that all processes take part, and the PE of each device.

There are two steps (xla_patch/runtime/runtime.h). `announce` runs inside the plugin's `initialize()`, before the
backend exists: it creates the segment and publishes the result in JAX's key-value store. The CPU client of a
distributed job starts only when every process has reached that point. So when `topology` runs later, an announcement
that is missing will never arrive, and all processes decide alike whether SHMEM can be used, without another barrier.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import logging
import os
import pathlib
import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xla_shmem import _core
from xla_shmem.machine import cpu_collectives
from xla_shmem.options import Options
from xla_shmem.options.values import AUTO_HEAP_SIZE, MIN_HEAP_SIZE
from xla_shmem.runtime.flight_records import begin_trace, record_directory
from xla_shmem.runtime.job_end import JobEnd
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.store import open_store

logger = logging.getLogger(__name__)

_KEY_PREFIX = "xla_shmem/1"

# For tests: seconds after which a late process is reported.
_LATE_AFTER = "_XLA_SHMEM_LATE_AFTER"


@dataclasses.dataclass(frozen=True)
class Announcement:
    """The announcement of one process, before the backend exists.

    Attributes:
      host: identifies the shared memory; processes with equal strings can share memory.
      error: why this process cannot take part, empty if it can.
      agreement: version and options that must be equal everywhere.
      segment: key in the name of the process's segment.
      wrong_option: why its options are refused, which ends all processes; "" if they are not.
    """

    host: str
    error: str
    agreement: str
    segment: str
    wrong_option: str = ""


class Job:
    """This process's part in the job. There is one in a process; the module's docstring has the order of calls."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._store, self._process, self._processes = open_store()
        self._lock = threading.Lock()
        self._topology: JobTopology | None = None
        self._end: JobEnd | None = None

    @property
    def process(self) -> int:
        """Number of this process in the job."""
        return self._process

    @property
    def processes(self) -> int:
        """Number of processes of the job."""
        return self._processes

    def announce(self, wrong_option: str = "") -> None:
        """Creates the segment and publishes whether that worked.

        It does not raise if memory is short, because the other processes must learn of it.

        Args:
          wrong_option: why the options of this process are refused, "" if they are not; it then needs no segment.
        """
        segment, error = self._segment_key(), wrong_option
        if not wrong_option:
            try:
                size = self._segment_bytes()
                _core.create_segment(segment, self._process, size, self._options.single_copy)
                logger.debug("xla_shmem: process %d has a segment of %d bytes", self._process, size)
            except (RuntimeError, OSError) as failure:
                error = _describe(failure)
                logger.error("xla_shmem: %s; all collectives stay on the default backend", error.removesuffix("."))
            if self._processes > 1:
                self._end = JobEnd()
            begin_trace(self._options, self._process)
        announcement = Announcement(_host_identity(), error, self._agreement(), segment, wrong_option)
        self._store.set(f"{_KEY_PREFIX}/{self._process}", json.dumps(dataclasses.asdict(announcement)))

    def wrong_option(self) -> str:
        """Returns why the options of a process are refused, equal in all processes; "" if those of none are.

        Call it when all processes have announced.
        """
        announced = [one.wrong_option if one else "" for one in self._announcements()]
        if len(set(announced)) == 1:
            return announced[0]
        return next(f"process {process}: {sentence}" for process, sentence in enumerate(announced) if sentence)

    def topology(self) -> JobTopology:
        """Returns the job's topology; the first call connects to the other processes. Needs the backend.

        Raises:
          RuntimeError: a segment cannot be mapped.
        """
        with self._lock:
            if self._topology is None:
                self._topology = self._connect()
            return self._topology

    def _segment_key(self) -> str:
        """Returns a key that nobody knows before the segment exists, so that no other user can take its name."""
        key = f"{_KEY_PREFIX}/job"
        if self._process == 0:
            # The launcher cleans up by the first half; the second separates two jobs under one launcher.
            launcher_half = (self._options.job or secrets.token_hex(16))[:16]
            self._store.set(key, launcher_half + secrets.token_hex(8))
        return self._store.wait(key)[:16] + secrets.token_hex(8)

    def _segment_bytes(self) -> int:
        if self._options.heap_size is not None:
            return self._options.heap_size
        free = os.statvfs("/dev/shm")
        # All processes of the host may ask at the same moment; each takes at most its share of the free memory.
        share = free.f_bavail * free.f_frsize // (2 * self._processes)
        size = AUTO_HEAP_SIZE
        while size > max(share, MIN_HEAP_SIZE):
            size //= 2
        return size

    def _agreement(self) -> str:
        from jaxlib import version as jaxlib

        from xla_shmem.version import __version__

        # Another XLA compiles the same program to another module.
        return f"xla-shmem {__version__}, jaxlib {jaxlib.__version__}, {self._options.decision_key()}"

    def _observe(self, here: list[int], local_pes: list[int]) -> None:
        troubles = _core.observe(
            here,
            local_pes,
            record_directory=record_directory(self._options, self._store.wait(f"{_KEY_PREFIX}/job")),
            statistics=bool(self._options.stats),
            trace_file=self._options.trace or "",
        )
        for trouble in troubles:
            logger.warning("xla_shmem: %s", trouble)
        # After Ctrl-C Python ends itself by the signal, so exit handlers of C++ do not run.
        atexit.register(_core.report)

    def _announcements(self) -> list[Announcement | None]:
        texts = [self._store.get(f"{_KEY_PREFIX}/{process}") for process in range(self._processes)]
        return [None if text is None else Announcement(**json.loads(text)) for text in texts]

    def _connect(self) -> JobTopology:
        import jax

        devices = sorted(jax.devices("cpu"), key=lambda device: (device.process_index, device.id))
        announcements = self._announcements()
        hosts = _number_hosts(announcements)
        locations = _locations(devices, hosts, self._options.nvlink_domain)
        topology = _core.Topology(locations)
        reason = self._why_unavailable(announcements)
        one_thread = _processes_of_one_thread(devices)
        own_host = hosts[self._process]
        if not reason:
            here = [process for process, host in enumerate(hosts) if host == own_host]
            self._observe(here, [pe for _, process, _, _, pe in locations if process == self._process])
            _core.connect(
                [(process, device) for device, process, *_ in locations],
                [host == own_host for host in hosts],
                [announcement.segment for announcement in announcements if announcement],
                topology.fingerprint,
                self._options.spin_us,
                self._options.deadline,
                late_after_s=float(os.environ.get(_LATE_AFTER, "60")),
                single_copy=self._options.single_copy != "off",
                finish_in_caller=self._process in one_thread,
            )
            logger.debug("xla_shmem: process %d shares memory with processes %s", self._process, here)
            transport = _core.cpu_transport({device: host for device, _, host, *_ in locations})
            if self._end is not None:
                self._end.connected(one_host=len(set(hosts)) == 1)
        else:
            transport = _core.Transport(False, reason, None)
        return JobTopology(topology, transport, one_at_a_time=bool(one_thread))

    def _why_unavailable(self, announcements: Sequence[Announcement | None]) -> str:
        """One sentence, equal in all processes, or "" if all can take part."""
        for process, announcement in enumerate(announcements):
            if announcement is None:
                return (
                    f"process {process} runs without xla-shmem: set the flag and install the package in every process"
                )
            if announcement.error:
                return f"process {process}: {announcement.error}"
        first = announcements[0]
        for process, announcement in enumerate(announcements):
            if first and announcement and announcement.agreement != first.agreement:
                return (
                    f"process {process} has {announcement.agreement} and process 0 has {first.agreement}:"
                    " they must be equal"
                )
        return ""


def _describe(failure: RuntimeError | OSError) -> str:
    if isinstance(failure, OSError):
        return f"cannot use /dev/shm for shared memory ({failure.strerror}): mount a tmpfs there"
    return str(failure)


def _host_identity() -> str:
    """Returns a text that is equal in processes with the same /dev/shm, or on one machine if that is missing."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        shm = os.stat("/dev/shm")
    except OSError:
        return f"{boot}/no /dev/shm"
    return f"{boot}/{shm.st_dev}/{shm.st_ino}"


def _number_hosts(announcements: Sequence[Announcement | None]) -> list[int]:
    """Returns the host number of each process. Hosts are numbered in order of first appearance.

    A process without an announcement counts as a host of its own.
    """
    identities = [a.host if a else f"unknown {process}" for process, a in enumerate(announcements)]
    order = list(dict.fromkeys(identities))
    return [order.index(identity) for identity in identities]


def _processes_of_one_thread(devices: Sequence[Any]) -> set[int]:
    """Returns the processes in which XLA runs the collectives that are not ours on MPI.

    They have one device, because only one thread of a process may call MPI: JAX refuses MPI's collectives in a process
    with several devices.
    """
    if cpu_collectives() != "mpi":
        return set()
    counts = Counter(device.process_index for device in devices)
    return {process for process, count in counts.items() if count == 1}


def _locations(
    devices: Sequence[Any], hosts: Sequence[int], nvlink_domain: int | None
) -> list[tuple[int, int, int, int, int]]:
    """Returns (device id, process, host, NVLink domain, PE) of every device, in order of PEs.

    Without `nvlink_domain` a host is one domain. With it, a domain has that many consecutive PEs of a host.
    """
    locations = []
    on_host: dict[int, int] = {}
    domains: dict[tuple[int, int], int] = {}
    for pe, device in enumerate(devices):
        host = hosts[device.process_index]
        index = on_host.get(host, 0)
        on_host[host] = index + 1
        domain = domains.setdefault((host, index // nvlink_domain if nvlink_domain else 0), len(domains))
        locations.append((device.id, device.process_index, host, domain, pe))
    return locations
