"""A training job from the command line: every field of `TrainConfig` is an option, and `--config` reads a file."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click

from long_context.train.config import ConfigError, TrainConfig
from long_context.train.config_fields import FIELDS, ConfigField
from long_context.train.config_file import read_config_file

_Command = TypeVar("_Command", bound=Callable[..., Any])


def config_options(
    leave_out: Container[str] = (), defaults: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[_Command], _Command]:
    """Decorator that adds `--config` and the fields of `TrainConfig` to a click command.

    An option that is not given is None.

    Args:
      leave_out: names of fields that are no options.
      defaults: fields with a default other than `TrainConfig`'s; pass them to `from_options` too.
    """

    def decorate(command: _Command) -> _Command:
        for field in reversed(list(FIELDS.values())):
            if field.name not in leave_out:
                command = _option(field, defaults.get(field.name, field.default))(command)
        return click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="TOML file with these options as keys; the command line takes precedence.",
        )(command)

    return decorate


def from_options(
    config: Path | None, options: Mapping[str, Any], defaults: Mapping[str, Any] = MappingProxyType({})
) -> TrainConfig:
    """The job described by the options of a command that `config_options` decorates.

    Args:
      config: the config file; None if there is none.
      options: fields by name; None for an option that is not given.
      defaults: as for `config_options`.

    Raises:
      click.UsageError: the file cannot be read, or the job cannot run.
    """
    try:
        fields = dict(defaults) | (read_config_file(config) if config is not None else {})
        fields |= {name: value for name, value in options.items() if value is not None}
        return TrainConfig(**fields)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def _option(field: ConfigField, default: Any) -> Callable[[_Command], _Command]:
    help_text = field.help
    if field.choices:
        help_text += f" One of: {', '.join(each for each in field.choices if each)}."
    if default not in ("", False):
        help_text += f"  [default: {'the preset' if default is None else default}]"
    if field.kind is bool:
        return click.option(f"--{field.key}/--no-{field.key}", field.name, default=None, help=help_text)
    return click.option(f"--{field.key}", *field.aliases, field.name, type=field.kind, help=help_text)
