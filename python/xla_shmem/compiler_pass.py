"""The pass in XLA's pipeline: registers transform and handlers, and takes them out for a baseline."""

from __future__ import annotations

from typing import Any

import jax
from jax._src.lib import _jax, _xla  # type: ignore[attr-defined]

from xla_shmem import _core
from xla_shmem.job import Job
from xla_shmem.options import Options

# XLA's HloXlaTransform::PipelineStage.
_POST_SCHEDULER = 1
_NAME = "xla_shmem"


class CompilerPass:
    """The transform of this process and what its custom calls need. One a process."""

    def __init__(self, job: Job, options: Options) -> None:
        self._job = job
        self._options = options
        self._paused = 0

    def register(self) -> None:
        """Register handlers and transform with XLA:CPU. Called before the backend exists."""
        # Not through jax.ffi.register_ffi_type: with the backend still to come, JAX hands types over after the
        # handlers that need them.
        _jax.register_custom_type("xla_shmem.LoadedCall", _core.cpu_handler_state())
        for name, stages in _core.cpu_handlers().items():
            jax.ffi.register_ffi_target(name, stages, platform="cpu")
        _core.set_connect_hook(self._why_not_connected)
        self._add_transform()

    def pause(self) -> None:
        """Take the transform out, so that modules compile exactly as without xla-shmem; calls nest."""
        self._paused += 1
        if self._paused == 1:
            _xla.clear_xla_transform(_NAME, _POST_SCHEDULER)

    def resume(self) -> None:
        """Undo one `pause`."""
        self._paused -= 1
        if self._paused == 0:
            self._add_transform()

    def cache_salt(self) -> str:
        """Everything a compiled module depends on besides its input and device order; "" while paused."""
        from xla_shmem import __version__

        if self._paused:
            return ""
        job = self._job.topology()
        return (
            f"xla_shmem {__version__} {self._options.decision_key()} {job.topology.fingerprint} {job.transport.reason}"
        )

    def _add_transform(self) -> None:
        # The layer below jax.extend.xla.register_hlo_module_transformation, which from 0.12 initialises the
        # backends when called.
        _xla.register_xla_transform(_NAME, _POST_SCHEDULER, self._transform)

    def _transform(self, module: bytes) -> bytes | None:
        job = self._job.topology()
        result = _core.run_pass(
            module,
            job.topology,
            job.transport,
            profile=self._options.profile,
            threshold=self._options.threshold,
            lowering="cpu",
        )
        if self._options.verbose and result.records and self._job.process == 0:
            _print_assignment(module, result.records)
        return result.module

    def _why_not_connected(self) -> str:
        """Connects if that has not happened yet: an executable may be loaded before anything is compiled."""
        try:
            transport = self._job.topology().transport
        except Exception as error:
            return str(error)
        return "" if transport.available else transport.reason


def _print_assignment(module: bytes, records: Any) -> None:
    from xla_shmem import hlo_proto
    from xla_shmem.collective_report import ModuleReport, print_tables

    print_tables([ModuleReport("compiled now", hlo_proto.module_name(module), records)])
