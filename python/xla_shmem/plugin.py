"""JAX plugin entry point (group `jax_plugins`): switches the compiler pass on when the flag asks for it.

JAX calls `initialize` before it creates its first backend, early enough to remove the flag from XLA_FLAGS: releases
from 0.11 end the process because they do not know it. With the flag off, nothing is registered, and only the reader of
the flag is imported. With a patched XLA:GPU, which has the pass built in (docs/patched-jaxlib.md), the flag stays and
nothing is registered either.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xla_shmem.runtime.compiler_pass import CompilerPass

_pass: CompilerPass | None = None


def initialize() -> None:
    """Entry point. Does nothing if the flag is off, or on a second call."""
    global _pass
    from xla_shmem import xla_flags

    if _pass is not None:
        return
    try:
        if xla_flags.read_flag(os.environ):
            from xla_shmem.gpu import jax_plugin

            plugin = jax_plugin.wanted_plugin()
            if plugin is not None and jax_plugin.has_native_pass(plugin):
                xla_flags.restore_flag(os.environ)
                return
        if not xla_flags.take_flag(os.environ):
            return
        error = ""
    except ValueError as failure:
        xla_flags.remove_flag(os.environ)
        error = str(failure)
    _start(error)


def _start(error: str) -> None:
    """Registers the pass. `error`: why the flag is wrong, "" if it is not."""
    global _pass
    from xla_shmem import options
    from xla_shmem.gpu.jax_plugin import wanted_plugin, wants_cpu
    from xla_shmem.runtime.compiler_pass import CompilerPass, salt_cache_keys
    from xla_shmem.runtime.gpu_platform import start_gpu_job
    from xla_shmem.runtime.job import Job
    from xla_shmem.runtime.messages import begin_messages
    from xla_shmem.runtime.wrong_options import end_behind_the_first_backend

    resolved = options.resolve({}, {})
    try:
        if not error:
            resolved = options.freeze(cpu=wants_cpu(), gpu=wanted_plugin() is not None)
    except options.OptionError as failure:
        # The other processes must learn that this one cannot take part. Otherwise they would wait for it.
        error = str(failure)
    begin_messages(resolved.verbose)
    job = Job(resolved)
    job.announce(error)
    end_behind_the_first_backend(job.wrong_option)
    _pass = CompilerPass(job, start_gpu_job(resolved, error, job.wrong_option), resolved)
    _pass.register()
    salt_cache_keys(_pass.cache_salt)


def active() -> bool:
    """Returns whether the pass is registered in this process."""
    return _pass is not None


@contextlib.contextmanager
def stock_collectives() -> Iterator[None]:
    """Context in which modules compile, on any thread, exactly as without xla-shmem: a baseline for measurements.

    All processes of the job must compile the same modules in it. Has no effect if the pass is not active.
    """
    if _pass is None:
        yield
        return
    _pass.pause()
    try:
        yield
    finally:
        _pass.resume()
