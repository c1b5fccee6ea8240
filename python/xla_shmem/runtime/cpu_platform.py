"""The pass in XLA:CPU, which is part of jaxlib: registration goes through jaxlib's own functions.

jaxlib registers a transform of XLA:CPU only as a Python callable. Ours is the C++ method `_core.cpu_pass().run`. It
asks Python once, at the first module, for the devices of the job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax._src import xla_bridge
from jax._src.lib import _jax, _xla  # type: ignore[attr-defined]

from xla_shmem import _core
from xla_shmem.options import Options
from xla_shmem.runtime.job_topology import JobTopology

#: Name of the CPU among JAX's backends.
BACKEND = "cpu"

# XLA's HloXlaTransform::PipelineStage.
_POST_SCHEDULER = 1


class CpuPlatform:
    """Handlers and transform of XLA:CPU. There is one in a process."""

    #: The platform of its devices, as JAX names it.
    device_platform = "cpu"

    def __init__(self, name: str, topology: Callable[[], JobTopology], options: Options) -> None:
        self._name = name
        self._topology = topology
        self._options = options

    def register(self, observe: Callable[[bytes, Any], None] | None, unread: Callable[[int, str], None]) -> None:
        """Registers the handlers, but not the transform. Called before the backend exists.

        Args:
          observe: called with every module that has collectives, and their records.
          unread: called with the bytes of a module that the pass cannot read, and the reason.
        """
        # jax.ffi.register_ffi_type would not do: before the backend exists, JAX would register the types after the
        # handlers that need them.
        _jax.register_custom_type("xla_shmem.LoadedCall", _core.cpu_handler_state())
        for name, stages in _core.cpu_handlers().items():
            jax.ffi.register_ffi_target(name, stages, platform="cpu")
        jax.ffi.register_ffi_target(_core.after_target(), _core.empty_call(), platform="cpu")
        _core.set_connect_hook(self._why_not_connected)
        _core.cpu_pass().set_hooks(self._connect, observe, unread)

    def add_pass(self) -> None:
        """Registers the pass for modules that are compiled from now on."""
        # jax.extend.xla.register_hlo_module_transformation would initialise the backends, from jax 0.12 on. This is the
        # layer below it.
        _xla.register_xla_transform(self._name, _POST_SCHEDULER, _core.cpu_pass().run)

    def remove_pass(self) -> None:
        """Undoes `add_pass`."""
        _xla.clear_xla_transform(self._name, _POST_SCHEDULER)

    def cache_salt(self) -> str:
        """Returns the part of the job that compiled modules depend on; "" while there is no CPU backend."""
        if BACKEND not in xla_bridge.backends():
            return ""
        job = self._topology()
        order = " one at a time" if job.one_at_a_time else ""
        records = " with records" if self._marks(job) else ""
        return f"{BACKEND} {job.topology.fingerprint}{order}{records} {job.transport.reason}"

    def job_topology(self) -> JobTopology:
        """Returns the job's devices on this platform; none without such a backend. Needs JAX's backends."""
        if BACKEND not in xla_bridge.backends():
            # JAX_PLATFORMS leaves the CPU out. Another client may still compile for CPUs; it takes no part in the job.
            return JobTopology(_core.Topology([]), _core.Transport(False, "this process has no CPU backend", None))
        return self._topology()

    def _connect(self) -> str:
        try:
            job = self.job_topology()
        except Exception as error:
            return str(error)
        rules = self._options.rules("cpu")
        _core.cpu_pass().set_options(
            job.topology,
            job.transport,
            **rules,
            one_at_a_time=job.one_at_a_time,
            mark_default_collectives=self._marks(job),
            marks_keep_aliasing=jax.__version_info__ < (0, 11),
        )
        return ""

    def _marks(self, job: JobTopology) -> bool:
        """Whether collectives of the default backend are recorded. Without the transport no runtime could do it."""
        return self._options.default_records == "on" and job.transport.available

    def _why_not_connected(self) -> str:
        """Connects if necessary, since an executable may be loaded before any compilation; returns the error, or ""."""
        try:
            transport = self.job_topology().transport
        except Exception as error:
            return str(error)
        return "" if transport.available else transport.reason
