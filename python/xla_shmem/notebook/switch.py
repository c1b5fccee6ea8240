"""Switches xla-shmem on from Python."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, ParamSpec

from xla_shmem import jax_start, plugin, xla_flags
from xla_shmem.errors import TooLateError, UserError
from xla_shmem.options import configure, resolve

P = ParamSpec("P")


def _with_keywords_of(other: Callable[P, None]) -> Callable[[Callable[..., None]], Callable[P, None]]:
    """Decorator: the function takes the keywords of another one, for readers and type checkers."""

    def decorate(function: Callable[..., None]) -> Callable[P, None]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
            function(*args, **kwargs)

        wrapper.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return wrapper

    return decorate


@_with_keywords_of(configure)
def enable(**options: Any) -> None:
    """Switches xla-shmem on in this process and in those that it starts, as the flag in ``XLA_FLAGS`` does.

    Call it before the first JAX computation, and before anything else that asks for devices, such as ``jax.devices()``.
    It may come before or after ``import jax`` and ``jax.distributed.initialize()``. All processes of a job must call
    it. It beats a flag that ``XLA_FLAGS`` sets to false. If xla-shmem is on already, it only sets options.

    Args:
      **options: as of ``xla_shmem.configure``.

    Raises:
      TooLateError: JAX already has its devices; or options are given and xla-shmem has read its options.
      OptionError: an option has a value that is not allowed, here or in the environment. Nothing is switched on then.
      UserError: JAX cannot find the plugin, because xla-shmem is on the import path but is not installed.
    """
    if plugin.is_on():
        if options:
            configure(**options)
        return
    if jax_start.has_begun():
        raise TooLateError(
            "enable(): JAX has already taken its devices, at the first computation or at jax.devices(), and it has "
            "taken them without xla-shmem. Restart the process (in a notebook: the kernel) and call enable() first, or "
            f'set XLA_FLAGS="$XLA_FLAGS {xla_flags.FLAG}=true" before the process starts.'
        )
    if not any(one.value == plugin.__name__ for one in entry_points(group="jax_plugins")):
        raise UserError(
            "enable(): JAX will not find the plugin, because xla-shmem is not installed for this Python; run "
            "`pip install .` in a clone of xla-shmem."
        )
    configure(**options)
    resolve()  # the environment's values too: later nobody would see the error
    xla_flags.set_flag(os.environ)
