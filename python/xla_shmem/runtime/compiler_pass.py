"""The pass in XLA's pipelines: registered with each platform, and removed for a baseline."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
from jax._src import xla_bridge

from xla_shmem import _core
from xla_shmem.options import Options
from xla_shmem.runtime import gpu_platform
from xla_shmem.runtime.cpu_platform import CpuPlatform
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.gpu_platform import GpuPlatform
from xla_shmem.runtime.job import Job

logger = logging.getLogger(__name__)

R = TypeVar("R")

_NAME = "xla_shmem"


class CompilerPass:
    """The transforms of this process and what their custom calls need. There is one in a process."""

    def __init__(self, job: Job, gpu_job: GpuJob | None, options: Options) -> None:
        self._job = job
        self._gpu_job = gpu_job
        self._options = options
        self._platforms: list[CpuPlatform | GpuPlatform] = []
        self._paused = 0
        # Part of the keys of JAX's caches in memory, which would return what was compiled with the pass, or without it.
        self._stock = jax.make_user_context(default_value=False)  # type: ignore[no-untyped-call]

    def register(self) -> None:
        """Registers with XLA:CPU now, with XLA:GPU when JAX has found its plugin. Call it before any backend exists."""
        self._add(CpuPlatform(_NAME, self._job.topology, self._options))
        xla_bridge.register_plugin_callbacks(self._add_plugin)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Context without the transforms, in which modules compile exactly as without xla-shmem. Contexts nest."""
        self._paused += 1
        if self._paused == 1:
            for platform in self._platforms:
                platform.remove_pass()
        try:
            with self._stock(True):
                yield
        finally:
            self._paused -= 1
            if self._paused == 0:
                for platform in self._platforms:
                    platform.add_pass()

    def cache_salt(self, device_platform: str) -> str:
        """Returns all that a compiled module depends on besides its input and device order; "" while paused.

        Args:
          device_platform: platform of the module's devices. No other platform is asked, because JAX may have no backend
            for it: with ``JAX_PLATFORMS=cuda`` there is no CPU.
        """
        from xla_shmem.version import __version__

        if self._paused:
            return ""
        platforms = " ".join(
            platform.cache_salt() for platform in self._platforms if platform.device_platform == device_platform
        )
        return f"xla_shmem {__version__} {self._options.decision_key()} {platforms}"

    def has(self, platform: str) -> bool:
        """Returns whether it is registered for a platform, "cpu" or "gpu"."""
        return any(one.device_platform == platform for one in self._platforms)

    def decide(self, decide: Callable[..., R], module: bytes, platform: str) -> R:
        """Returns what `decide` says of a module for a registered platform, with the options and devices of the job.

        Args:
          decide: `_core.explain_module` or `_core.run_pass`.
          module: serialised `HloModuleProto`.
          platform: "cpu" or "gpu".

        Raises:
          RuntimeError: the job's processes cannot be connected.
        """
        (found,) = (one for one in self._platforms if one.device_platform == platform)
        job = found.job_topology()
        rules = self._options.rules(platform)
        return decide(module, job.topology, job.transport, **rules, lowering=platform, gpu=job.gpu)

    def _add(self, platform: CpuPlatform | GpuPlatform) -> None:
        tells = self._options.verbose and self._job.process == 0
        platform.register(_log_assignment if tells else None, _warn_of_unread_module)
        if not self._paused:
            platform.add_pass()
        self._platforms.append(platform)

    def _add_plugin(self, c_api: Any) -> None:
        """Registers with a PJRT plugin if it is XLA:GPU's. JAX calls this for every plugin that it finds."""
        if not gpu_platform.is_gpu_plugin(c_api):
            return
        try:
            self._add(GpuPlatform(_NAME, _core.GpuPlugin(c_api), self._gpu_job, self._options))
        except RuntimeError as error:
            logger.error("xla_shmem: %s; all collectives on GPUs stay on the default backend", error)


def _log_assignment(module: bytes, records: Any) -> None:
    from xla_shmem.hlo.collective_report import ModuleReport, print_tables
    from xla_shmem.runtime.messages import printed

    name = _core.module_header(module)["name"]
    logger.info(
        "%s", printed(lambda console: print_tables([ModuleReport("compiled now", name, records)], None, console))
    )


def _warn_of_unread_module(num_bytes: int, why: str) -> None:
    # The same module has the same bytes on all ranks, so all of them leave it on the default backend.
    logger.warning(
        "xla_shmem: the pass leaves a module of %d bytes as it is, on the default backend: %s", num_bytes, why
    )
