"""Ends a job whose options are wrong before it computes, with the same sentence on every rank."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from jax._src import xla_bridge

logger = logging.getLogger(__name__)

#: Exit code after wrong use, as of the commands.
WRONG_USE = 2


def end_behind_the_first_backend(why: Callable[[], str]) -> None:
    """Ends this process with exit code 2 when JAX has created its first backend, if `why()` returns a sentence.

    No process of a distributed job has a backend before all have announced their options. `SystemExit` leaves time for
    JAX's barrier at shutdown, so that every process gets as far as its sentence. JAX logs errors of a plugin's
    `initialize()` and goes on, so they would not do.
    """
    create = xla_bridge._init_backend

    @functools.wraps(create)
    def create_or_end(platform: str) -> Any:
        backend = create(platform)
        if sentence := why():
            logger.critical("xla_shmem: %s", sentence)
            raise SystemExit(WRONG_USE)
        return backend

    xla_bridge._init_backend = create_or_end
