"""JAX plugin entry point (group `jax_plugins`): switches the compiler pass on when the flag asks for it.

JAX calls `initialize` before it creates its first backend, early enough to remove the flag from XLA_FLAGS: releases
from 0.11 end the process because they do not know it. With the flag off, nothing is registered, and only the reader of
the flag is imported. With a patched XLA:GPU, which has the pass built in (docs/patched-jaxlib.md), the flag stays,
no pass is registered, and the keys of JAX's compilation cache get the options that the built-in pass reads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from xla_shmem.runtime.compiler_pass import CompilerPass

R = TypeVar("R")

_pass: CompilerPass | None = None
_is_built_in = False  # a patched XLA:GPU has a pass of its own and the flag is on


def initialize() -> None:
    """Entry point. Does nothing if the flag is off, or on a second call."""
    global _is_built_in
    from xla_shmem import xla_flags

    if _pass is not None:
        return
    try:
        if xla_flags.read_flag(os.environ):
            from xla_shmem import options
            from xla_shmem.gpu import jax_plugin
            from xla_shmem.runtime import cache_keys

            plugin = jax_plugin.wanted_plugin()
            if plugin is not None and jax_plugin.has_native_pass(plugin):
                xla_flags.restore_flag(os.environ)
                options.export(os.environ)  # the pass in it reads variables only
                _is_built_in = True
                cache_keys.salt_cache_keys(cache_keys.patched_xla_salt)
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
    from xla_shmem.runtime.cache_keys import salt_cache_keys
    from xla_shmem.runtime.compiler_pass import CompilerPass
    from xla_shmem.runtime.gpu_flags import set_flags
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
    if wanted_plugin() is not None:
        resolved = set_flags(resolved, job.processes, os.environ, says=job.process == 0)
    _pass = CompilerPass(job, start_gpu_job(resolved, error, job.wrong_option), resolved)
    _pass.register()
    salt_cache_keys(_pass.cache_salt)


def active() -> bool:
    """Returns whether the pass is registered in this process."""
    return _pass is not None


def is_on() -> bool:
    """Returns whether this process has begun with the flag: with the pass, or with a patched jaxlib."""
    return _pass is not None or _is_built_in


def carries(platform: str) -> bool:
    """Returns whether the pass is registered with XLA for a platform, ``"cpu"`` or ``"gpu"``, in this process."""
    return _pass is not None and _pass.has(platform)


def decide_here(decide: Callable[..., R], module: bytes, platform: str) -> R:
    """Returns the result of ``decide`` with the options and devices of this process's job, as when it compiles.

    Args:
      decide: ``_core.explain_module`` or ``_core.run_pass``.
      module: serialised ``HloModuleProto``.
      platform: one that :func:`carries` confirms.

    Raises:
      RuntimeError: the job's processes cannot be connected.
    """
    assert _pass is not None, platform
    return _pass.decide(decide, module, platform)


@contextlib.contextmanager
def stock_collectives() -> Iterator[None]:
    """Context in which programs compile, on any thread, exactly as without xla-shmem: a baseline for measurements.

    In the thread that enters it, a function that was compiled outside is compiled anew, and once more when it is called
    outside again. To measure, keep ``jax.jit(f).lower(...).compile()`` of each; lower it in the context too, because a
    lowered program keeps what it was compiled to. All processes of the job must compile the same programs in it. Has no
    effect if the pass is not active.
    """
    with contextlib.nullcontext() if _pass is None else _pass.paused():
        yield
