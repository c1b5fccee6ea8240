"""The calls into the C++ runtime of the GPU path. Tests replace them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from xla_shmem import _core
from xla_shmem.gpu import libraries
from xla_shmem.gpu.kernels import load_kernels
from xla_shmem.gpu.process_facts import OpenGpu, read_process_facts
from xla_shmem.options import Options
from xla_shmem.runtime import heap_memory, nvshmem_settings

logger = logging.getLogger(__name__)

#: Exit status of a process that ends because it cannot go on (EX_SOFTWARE), as of the watchdog.
_EXIT_STUCK = 70


class Runtime:
    """The calls into the C++ runtime. Tests replace them."""

    facts = staticmethod(read_process_facts)
    unique_id = staticmethod(_core.gpu_unique_id)
    make_heap = staticmethod(heap_memory.make_heap)
    join_heap = staticmethod(heap_memory.join_heap)
    open_multicast = staticmethod(_core.gpu_open_multicast)
    drop_heaps = staticmethod(heap_memory.drop_heaps)
    start = staticmethod(_core.gpu_start)
    has_multicast = staticmethod(_core.gpu_has_multicast)
    use_multimem = staticmethod(_core.gpu_use_multimem)
    observe = staticmethod(_core.gpu_observe)
    report = staticmethod(_core.gpu_report)
    admit = staticmethod(_core.gpu_admit)

    def open(self, options: Options, ordinal: int, cuda: int, with_nvshmem: bool = True) -> OpenGpu:
        """Opens libraries and device, and loads the device code.

        Args:
          options: the options in force.
          ordinal: CUDA ordinal.
          cuda: release of JAX's CUDA plugin, 12 or 13.
          with_nvshmem: whether to load NVSHMEM. That it cannot be loaded is only an error if the options ask for it.

        Raises:
          RuntimeError: a library, the driver or the device is missing or lacks what the options need.
        """
        candidates: list[str] = []
        if with_nvshmem:
            search = libraries.nvshmem(cuda, options.nvshmem_library)
            candidates = list(search.paths)
            for path, reason in search.rejected:
                logger.warning("xla_shmem: ignoring %s: %s", path, reason)
        found = _core.gpu_open(candidates, ordinal, puts=puts_of(options), permute=options.gpu_permute)
        if found["nvshmem_error"] and needs_nvshmem(options):
            raise RuntimeError(found["nvshmem_error"])
        if found["nvshmem_path"]:
            logger.info("xla_shmem: NVSHMEM %s from %s", found["nvshmem_version"], found["nvshmem_path"])
        _core.gpu_load_kernels(self.compile(found["compute_capability"], cuda), ordinal)
        return OpenGpu(
            found["free_bytes"], found["multiprocessors"], found["can_copy_permutes"], found["nvshmem_error"]
        )

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


def puts_of(options: Options) -> str:
    """Returns what carries puts: ``"nvshmem"`` or ``"driver"``."""
    return "nvshmem" if options.gpu_puts == "nvshmem" else "driver"


def needs_nvshmem(options: Options) -> bool:
    """Returns whether the options allow no other heap than NVSHMEM's."""
    return options.gpu_heap == "nvshmem" or puts_of(options) == "nvshmem"
