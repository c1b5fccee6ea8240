"""Options for offline decisions: the rules, and the layout of devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click

from xla_shmem.inspect.decision_settings import DecisionSettings

R = TypeVar("R")

_OPTIONS = (
    click.option(
        "--profile",
        metavar="upstream|domain|tuned",
        help="Rules that choose the backend.  [default: XLA_SHMEM_PROFILE, or upstream]",
    ),
    click.option(
        "--threshold",
        metavar="SIZE",
        help="All-reduces this large stay on DEFAULT.  [default: XLA_SHMEM_THRESHOLD, or 16MiB]",
    ),
    click.option(
        "--ops", metavar="OPS", help="Collectives that may leave DEFAULT.  [default: XLA_SHMEM_OPS, or default]"
    ),
    click.option(
        "--tuning", metavar="FILE", help="Table of profile tuned, of any machine.  [default: XLA_SHMEM_TUNING]"
    ),
    click.option(
        "--devices-per-process",
        type=click.IntRange(min=1),
        metavar="K",
        default=1,
        show_default=True,
        help="Devices of each process, consecutive.",
    ),
    click.option(
        "--devices-per-host",
        type=click.IntRange(min=1),
        metavar="H",
        help="Devices of each host, consecutive.  [default: 8, in whole processes]",
    ),
    click.option(
        "--nvlink-domain",
        metavar="D",
        help="Devices of each NVLink domain, consecutive.  [default: XLA_SHMEM_NVLINK_DOMAIN, or one host]",
    ),
    click.option(
        "--num-devices",
        type=click.IntRange(min=1),
        metavar="N",
        help="Devices of the whole job.  [default: those the module names]",
    ),
    click.option(
        "--gpu",
        type=click.Choice(["hopper", "blackwell"]),
        metavar="hopper|blackwell",
        help="GPUs whose times the cost model estimates.  [default: no cost model]",
    ),
)


def decision_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options to a command and passes them on as ``settings``, a :class:`DecisionSettings`."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> R:
        settings = DecisionSettings(**{field.name: kwargs.pop(field.name) for field in fields(DecisionSettings)})
        return command(*args, settings=settings, **kwargs)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper
