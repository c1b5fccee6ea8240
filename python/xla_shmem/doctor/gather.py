"""Gathers the facts. Does not start JAX, and does not raise if something is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path

from xla_shmem.doctor.environment import read_environment
from xla_shmem.doctor.facts import Facts, Installation, Library, SharedMemory
from xla_shmem.doctor.network import read_network
from xla_shmem.gpu import libraries
from xla_shmem.gpu.cuda_driver import VisibleGpus, visible_gpus
from xla_shmem.gpu.jax_plugin import distribution_version, installed_plugins
from xla_shmem.gpu.nvlink_domains import place_gpus
from xla_shmem.gpu.nvml import Driver, read_driver
from xla_shmem.gpu.process_facts import ProcessFacts, process_facts
from xla_shmem.options import OptionError, resolve

_SHM = "/dev/shm"


def gather(environ: Mapping[str, str] | None = None) -> Facts:
    """Returns the facts of this machine, for a process with the environment ``environ`` (default: ``os.environ``)."""
    environ = os.environ if environ is None else environ
    driver, visible = read_driver(), visible_gpus()
    installation = _installation()
    plugin_cuda = installation.cuda_plugins[0].cuda if installation.cuda_plugins else None
    return Facts(
        system=platform.system(),
        machine=platform.machine(),
        python=platform.python_version(),
        cores=len(os.sched_getaffinity(0)),
        shared_memory=_shared_memory(),
        installation=installation,
        environment=read_environment(environ, len(visible.bus_ids)),
        network=read_network(),
        driver=driver,
        visible=visible,
        domains=_domains(driver, visible),
        nvshmem=_nvshmem(plugin_cuda, environ),
        nvrtc=_nvrtc(plugin_cuda, environ),
        nccl=_nccl(plugin_cuda),
    )


def _installation() -> Installation:
    lowers_gpu, core_error = False, ""
    try:
        from xla_shmem import _core

        # A build without the handlers of the GPU path does not change GPU programs.
        lowers_gpu = hasattr(_core, "cuda_handlers")
    except ImportError as error:
        core_error = str(error)
    entry_points = importlib.metadata.entry_points(group="jax_plugins")
    return Installation(
        xla_shmem=distribution_version("xla-shmem") or "unknown",
        jax=distribution_version("jax"),
        jaxlib=distribution_version("jaxlib"),
        cuda_plugins=tuple(installed_plugins()),
        core_error=core_error,
        entry_point=any(entry.value == "xla_shmem.plugin" for entry in entry_points),
        lowers_gpu=lowers_gpu,
    )


def _shared_memory() -> SharedMemory:
    limit = None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = Path(path).read_text().strip() if Path(path).is_file() else ""
        # Control groups of version 1 write "no limit" as the largest multiple of a page.
        if text.isdecimal() and int(text) < 2**62:
            limit = int(text)
            break
    try:
        state = os.statvfs(_SHM)
        with tempfile.TemporaryFile(dir=_SHM):
            pass
    except OSError as error:
        return SharedMemory(0, 0, f"{_SHM}: {error.strerror}", limit)
    return SharedMemory(state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize, "", limit)


def _domains(driver: Driver, visible: VisibleGpus) -> tuple[tuple[int, str], ...]:
    processes: list[ProcessFacts] = [
        process_facts("here", driver, visible, [ordinal]) for ordinal in range(len(visible.bus_ids))
    ]
    return tuple((place.domain, place.reason) for place in place_gpus(processes, [1] * len(processes)))


def _nvshmem(cuda: int | None, environ: Mapping[str, str]) -> Library:
    try:
        chosen = resolve(environ).nvshmem_library
    except OptionError as error:
        return Library("", "", f"not searched: {error}", "wrong options")
    except ImportError as error:
        return Library("", "", str(error), "missing")
    search = libraries.nvshmem(cuda, chosen, environ)
    if search.rejected and not search.candidates:
        return Library("", "", "; ".join(f"{path}: {reason}" for path, reason in search.rejected), "other CUDA")
    try:
        from xla_shmem import _core

        found = _core.nvshmem_library(search.paths)
    except (ImportError, RuntimeError) as error:
        return Library("", "", str(error), "missing" if chosen is None else "option")
    return Library(found["path"], ".".join(map(str, found["version"])), "")


def _nvrtc(cuda: int | None, environ: Mapping[str, str]) -> Library:
    if cuda is None:
        return Library("", "", "not searched: without a CUDA plugin of JAX the CUDA release is unknown")
    found = [candidate for candidate in libraries.nvrtc(cuda, environ).candidates if "/" in candidate.path]
    if not found:
        return Library("", "", f"no libnvrtc.so.{cuda} in wheels, library path or toolkit")
    return Library(found[0].path, found[0].source, "")


def _nccl(cuda: int | None) -> Library:
    """Looks for NCCL's wheel only: opening a library of hundreds of megabytes for its version is too slow."""
    for release in [cuda] if cuda else [13, 12]:
        if version := distribution_version(f"nvidia-nccl-cu{release}"):
            return Library(f"nvidia-nccl-cu{release}", version, "")
    return Library("", "", "no wheel nvidia-nccl-cu12 or nvidia-nccl-cu13")
