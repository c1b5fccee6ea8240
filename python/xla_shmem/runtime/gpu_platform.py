"""Starts the GPU path of this process, and registers the pass and its handlers with XLA:GPU.

XLA:GPU is a PJRT plugin and takes them through the extensions of its C API. It calls the pass in C++. The pass calls
Python once, at the first module, for the topology of the job.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from jax._src import xla_bridge

from xla_shmem import _core
from xla_shmem.gpu.jax_plugin import local_ordinals, wanted_plugin, why_too_old
from xla_shmem.options import Options
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.job_topology import JobTopology
from xla_shmem.runtime.store import open_store

#: Name of the plugin among JAX's backends.
BACKEND = "cuda"

#: Hardware queues of a GPU, read when the driver starts. With the default of 8, compute on one stream more often queues
#: behind the wait of another.
_HARDWARE_QUEUES = ("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def start_gpu_job(options: Options, error: str, why_ending: Callable[[], str]) -> GpuJob | None:
    """Returns the started GPU job of this process, None if JAX has no CUDA plugin or does not use it.

    Args:
      options: the options in force.
      error: why this process cannot take part, "" if it can.
      why_ending: as for `GpuJob.start`.
    """
    plugin = wanted_plugin()
    if plugin is None:
        return None
    os.environ.setdefault(*_HARDWARE_QUEUES)
    job = GpuJob(options, *open_store())
    error = error or why_too_old(plugin)
    job.start(local_ordinals(), plugin.cuda, error, compiler=plugin.pjrt or "", why_ending=why_ending)
    return job


def is_gpu_plugin(c_api: Any) -> bool:
    """Returns whether this is the CUDA plugin. JAX has found all plugins but made no backend yet."""
    factory = xla_bridge._backend_factories.get(BACKEND)
    return factory is not None and factory.c_api is c_api


class GpuPlatform:
    """Handlers and transform of XLA:GPU. There is one in each process."""

    #: The platform of its devices, as JAX names it.
    device_platform = "gpu"

    def __init__(self, name: str, plugin: _core.GpuPlugin, job: GpuJob | None, options: Options) -> None:
        self._name = name
        self._plugin = plugin
        self._job = job
        self._options = options

    def register(self, observe: Callable[[bytes, Any], None] | None, unread: Callable[[int, str], None]) -> None:
        """Registers the handlers, before the backend exists. `add_pass` registers the transform.

        Args:
          observe: called with every module that has collectives, and their records.
          unread: called with the bytes of a module that the pass cannot read, and the reason.

        Raises:
          RuntimeError: the plugin refuses.
        """
        for target, stages in _core.cuda_handlers().items():
            self._plugin.register_handler(target, stages)
        _core.gpu_pass().set_hooks(self._connect, observe, unread)
        _core.set_gpu_admit_hook(self.job_topology)

    def add_pass(self) -> None:
        """Runs the pass on every module that is compiled from now on."""
        self._plugin.register_pass(self._name)

    def remove_pass(self) -> None:
        """Reverts `add_pass`."""
        self._plugin.clear_pass(self._name)

    def cache_salt(self) -> str:
        """Returns the part of the job that compiled modules depend on; "" while there is no GPU backend."""
        if BACKEND not in xla_bridge.backends():
            return ""
        job = self.job_topology()
        return f"{BACKEND} {job.gpu} {job.topology.fingerprint} {job.transport.reason}"

    def job_topology(self) -> JobTopology:
        """Returns the job's devices on this platform; none without such a backend. Needs JAX's backends."""
        if self._job is None or BACKEND not in xla_bridge.backends():
            # XLA compiles for described GPUs. The pass decides on these modules but does not rewrite them.
            return JobTopology(_core.Topology([]), _core.Transport(False, "this process has no GPUs", None))
        return self._job.topology(xla_bridge.devices(BACKEND))

    def _connect(self) -> str:
        try:
            job = self.job_topology()
        except Exception as error:
            return str(error)
        _core.gpu_pass().set_options(job.topology, job.transport, **self._options.rules("gpu"), gpu=job.gpu)
        return ""
