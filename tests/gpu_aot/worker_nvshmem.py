"""One process of a job that starts NVIDIA's own NVSHMEM as far as that goes without a GPU: through its bootstrap.

Usage: worker_nvshmem.py PROCESS PROCESSES NOTES DRIVER, with NVSHMEM_INFO=1. DRIVER is a library of driver calls that
do nothing. NVSHMEM prints the settings that it has read on PE 0 only. So every other process forks at the moment when
NVSHMEM reads the settings for it, right before its init, and the child starts as PE 0 of a world of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.process_facts import GpuFacts, OpenGpu, ProcessFacts
from xla_shmem.options import Options, resolve
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.gpu_runtime import Runtime

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu_emulated" / "processes"))
from file_store import FileStore

PROCESS, PROCESSES = int(sys.argv[1]), int(sys.argv[2])


class BootstrapOnly(Runtime):
    """The real runtime and NVSHMEM on a driver that does nothing."""

    def facts(self, ordinals: Sequence[int] | None) -> ProcessFacts:  # type: ignore[override]
        return ProcessFacts("one host", (GpuFacts(f"0000:0{PROCESS}:00.0", switch_links=18),))

    def open(self, options: Options, ordinal: int, cuda: int, with_nvshmem: bool = True) -> OpenGpu:
        found = _core.gpu_open(libraries.nvshmem(13, None).paths, 0, cuda_library=sys.argv[4])
        return OpenGpu(80 << 30, 132, found["can_copy_permutes"])

    def start(self, **arguments: Any) -> int:  # type: ignore[override]
        if PROCESS != 0 and os.fork() == 0:
            with contextlib.suppress(RuntimeError):
                _core.gpu_start(**arguments | {"pe": 0, "n_pes": 1, "unique_id": _core.gpu_unique_id()})
            _end()
        return _core.gpu_start(**arguments)


def _end() -> NoReturn:
    # NVSHMEM printed through the C library, and its bootstrap still has threads.
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


def main() -> None:
    job = GpuJob(resolve(), FileStore(Path(sys.argv[3])), PROCESS, PROCESSES, BootstrapOnly(), 30)
    with contextlib.redirect_stdout(sys.stderr):
        job.start([0], cuda=13)
    sys.stderr.write(job._why_not_started() + "\n")
    sys.stderr.flush()
    _end()


main()
