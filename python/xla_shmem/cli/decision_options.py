"""Options for offline decisions: the rules, and the layout of devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from xla_shmem.inspect.decision_settings import DecisionSettings
from xla_shmem.options.table import TABLE

R = TypeVar("R")


def _of_table(
    name: str, metavar: str, help_: str, default: str = "", type_: click.Choice[str] | None = None
) -> Callable[..., Any]:
    """An option of the table; ``default`` says what holds where the table's default does not."""
    option = TABLE[name]
    default = default or option.default
    return click.option(
        f"--{name.replace('_', '-')}",
        type=type_,
        metavar=metavar,
        help=f"{help_}  [default: {option.env}{f', or {default}' if default else ''}]",
    )


_RULES = (
    _of_table(
        "profile",
        "|".join(TABLE["profile"].words),
        "Rules that choose the backend.",
        type_=click.Choice(TABLE["profile"].words),
    ),
    _of_table("threshold", "SIZE", "All-reduces this large stay on DEFAULT."),
    _of_table("ops", "OPS", "Collectives that may leave DEFAULT."),
    _of_table("tuning", "FILE", "Table of profile tuned, of any machine."),
    click.option(
        "--gpu",
        type=click.Choice(["hopper", "blackwell"]),
        metavar="hopper|blackwell",
        help="GPUs whose times the cost model estimates.  [default: no cost model]",
    ),
)

_LAYOUT = (
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
)

LAYOUT_OPTIONS = ("--devices-per-process", "--devices-per-host", "--nvlink-domain", "--num-devices")


def decision_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds rules and layout to a command and passes them on as ``settings``, a :class:`DecisionSettings`."""
    return _with_settings(command, (*_RULES, *_LAYOUT))


def layout_options(command: Callable[..., R]) -> Callable[..., R]:
    """As :func:`decision_options`, of the layout alone."""
    return _with_settings(command, _LAYOUT)


def given_options(ctx: click.Context) -> list[str]:
    """Returns the options on the command line, as users write them."""
    return [
        param.opts[0]
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and param.name is not None
        and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]


def _with_settings(command: Callable[..., R], options: Sequence[Callable[..., Any]]) -> Callable[..., R]:
    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> R:
        names = [field.name for field in fields(DecisionSettings) if field.name in kwargs]
        settings = DecisionSettings(**{name: kwargs.pop(name) for name in names})
        if settings.tuning is not None and settings.options().profile != "tuned":
            raise click.UsageError("--tuning has no effect without --profile tuned.")
        return command(*args, settings=settings, **kwargs)

    for option in reversed(options):
        wrapper = option(wrapper)
    return wrapper
