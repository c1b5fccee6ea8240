"""Options for offline decisions: the rules, and the layout of devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click

from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.options.table import TABLE

R = TypeVar("R")


def _of_table(name: str, metavar: str, help_: str, default: str = "") -> Callable[..., Any]:
    """An option of the table; ``default`` says what holds where the table's default does not."""
    option = TABLE[name]
    default = default or option.default
    return click.option(
        f"--{name.replace('_', '-')}",
        metavar=metavar,
        help=f"{help_}  [default: {option.env}{f', or {default}' if default else ''}]",
    )


_OPTIONS = (
    _of_table("profile", "|".join(TABLE["profile"].words), "Rules that choose the backend."),
    _of_table("threshold", "SIZE", "All-reduces this large stay on DEFAULT."),
    _of_table("ops", "OPS", "Collectives that may leave DEFAULT."),
    _of_table("tuning", "FILE", "Table of profile tuned, of any machine."),
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
    _of_table("nvlink_domain", "D", "Devices of each NVLink domain, consecutive.", "one host"),
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
