"""The fields of `TrainConfig` as options of a command."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click

from xla_shmem.train.config import ConfigError, TrainConfig, flag
from xla_shmem.train.config_file import field_type, read_config_file

_Command = TypeVar("_Command", bound=Callable[..., Any])

_ALIASES = {"sequence": ("--seq",)}


def config_options(
    leave_out: Container[str] = (), defaults: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[_Command], _Command]:
    """Decorator: adds `--config` and every field of `TrainConfig` to a click command, but for those left out.

    A field that is not given arrives as None. `defaults` are shown instead of `TrainConfig`'s; pass them to
    `from_options` too.
    """

    def decorate(command: _Command) -> _Command:
        for field in reversed(dataclasses.fields(TrainConfig)):
            if field.name not in leave_out:
                command = _option(field, defaults.get(field.name, field.default))(command)
        return click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="TOML file with these options as keys; the command line comes before it.",
        )(command)

    return decorate


def from_options(
    config: Path | None, options: Mapping[str, Any], defaults: Mapping[str, Any] = MappingProxyType({})
) -> TrainConfig:
    """The job that a command decorated with `config_options` was asked for.

    Args:
      config: the file, if one was given.
      options: fields by name; None for those that were not given.
      defaults: fields whose default is another than `TrainConfig`'s.

    Raises:
      click.UsageError: the file or the options do not make a job.
    """
    try:
        fields = dict(defaults) | (read_config_file(config) if config is not None else {})
        fields |= {name: value for name, value in options.items() if value is not None}
        return TrainConfig(**fields)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def _option(field: dataclasses.Field[Any], default: Any) -> Callable[[_Command], _Command]:
    kind = field_type(field.name)
    name = flag(field.name)
    help_text = field.metadata["help"]
    if field.metadata["choices"]:
        help_text += f" One of: {', '.join(each for each in field.metadata['choices'] if each)}."
    if default not in (None, "", False):
        help_text += f"  [default: {default}]"
    if kind is bool:
        return click.option(f"--{name}/--no-{name}", field.name, default=None, help=help_text)
    return click.option(f"--{name}", *_ALIASES.get(field.name, ()), field.name, type=kind, help=help_text)
