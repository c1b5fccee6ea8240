"""JAX plugin entry point (group `jax_plugins`): switches the compiler pass on when the flag asks for it.

JAX calls `initialize` before it creates its first backend, which is early enough to take the flag out of XLA_FLAGS: releases
from 0.11 do not know it any more and would end the process. With the flag off nothing is registered.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

# XLA's HloXlaTransform::PipelineStage.
_POST_SCHEDULER = 1
_PASS_NAME = "xla_shmem"

_active: Any = None  # the Job, once initialised
_paused = 0  # depth of stock_collectives contexts


def initialize() -> None:
    """Entry point. Does nothing unless the flag is on, and does its work once a process."""
    global _active
    from xla_shmem import xla_flags

    if _active is not None or not _wanted(xla_flags):
        return
    from xla_shmem import cache_key, options
    from xla_shmem.job import Job

    try:
        resolved, error = options.freeze(), ""
    except options.OptionError as failure:
        # The others must learn that this process cannot take part, or they would wait for it.
        resolved, error = options.resolve({}, {}), str(failure)
    job = Job(resolved)
    job.announce(error)
    _active = job
    _register(job, resolved)
    cache_key.salt(lambda: _salt(resolved))


def active() -> bool:
    """Whether the pass is registered in this process."""
    return _active is not None


@contextlib.contextmanager
def stock_collectives() -> Iterator[None]:
    """Leave modules that are compiled in this context, by any thread, as stock XLA made them: a baseline to measure against.

    All processes of the job must compile the same modules in it.
    """
    global _paused
    _paused += 1
    try:
        yield
    finally:
        _paused -= 1


def _wanted(xla_flags: Any) -> bool:
    if has_native_pass():
        # A patched jaxlib lowers by itself and needs to see the flag.
        return False
    return bool(xla_flags.take_flag(os.environ))


def has_native_pass() -> bool:
    """Whether this jaxlib was built from the patched XLA (docs/patched-jaxlib.md): then the plugin stands back."""
    try:
        from jaxlib import xla_shmem_build  # type: ignore[import-not-found]
    except ImportError:
        return False
    return bool(xla_shmem_build.NATIVE_PASS)


def _register(job: Any, resolved: Any) -> None:
    import jax
    from jax._src.lib import _xla

    from xla_shmem import _core

    def transform(module: bytes) -> bytes | None:
        if _paused:
            return None
        topology = job.topology()
        result = _core.run_pass(
            module,
            topology.topology,
            topology.transport,
            profile=resolved.profile,
            threshold=resolved.threshold,
            lowering="cpu",
        )
        if resolved.verbose and result.records and job.process == 0:
            _print_assignment(module, result.records)
        return result.module

    def connect() -> str:
        try:
            transport = job.topology().transport
        except Exception as error:
            return str(error)
        return "" if transport.available else transport.reason

    for name, stages in _core.cpu_handlers().items():
        jax.ffi.register_ffi_target(name, stages, platform="cpu")
    _core.set_connect_hook(connect)
    # The layer below jax.extend.xla.register_hlo_module_transformation, which from 0.12 initialises the backends when called.
    _xla.register_xla_transform(_PASS_NAME, _POST_SCHEDULER, transform)


def _print_assignment(module: bytes, records: Any) -> None:
    from xla_shmem import hlo_proto
    from xla_shmem.collective_report import ModuleReport, print_tables

    print_tables([ModuleReport("compiled now", hlo_proto.module_name(module), records)])


def _salt(resolved: Any) -> str:
    from xla_shmem import __version__

    if _paused:
        return "stock"
    assert _active is not None
    topology = _active.topology()
    return f"xla_shmem {__version__} {resolved.decision_key()} {topology.topology.fingerprint} {topology.transport.reason}"
