"""A training job from the command line: every field of `TrainConfig` is an option, and `--config` reads a file."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click

from long_context.train.config import MESH_FIELDS, MODEL_FIELDS, ConfigError, TrainConfig, flag
from long_context.train.config_fields import FIELDS, ConfigField
from long_context.train.config_file import read_config_file

#: The fields that say what is trained and how, for commands that run a job several times. Where its files are, and
#: whether it goes on from them, each of its runs sets itself.
TRAINED = (
    *("preset", *MODEL_FIELDS, *MESH_FIELDS, "shard_over_context", "hybrid_shard_degree", "batch", "sequence"),
    *("attention", "attention_blocks", "tensor_matmul", "dtype", "fp8", "remat"),
    *("steps", "learning_rate", "warmup_steps", "seed", "profile_steps"),
    *("corpus", "token_dtype", "tokenizer", "text_field", "validation", "validation_every", "validation_batches"),
)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def config_options(
    only: Container[str] = FIELDS, defaults: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[_Command], _Command]:
    """Decorator that adds `--config` and fields of `TrainConfig` to a click command.

    An option that is not given is None.

    Args:
      only: names of the fields that are options.
      defaults: fields with a default other than `TrainConfig`'s; pass them to `from_options` too.
    """

    def decorate(command: _Command) -> _Command:
        for field in reversed(list(FIELDS.values())):
            if field.name in only:
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
      click.UsageError: the file cannot be read or has a key that is none of the options, or the job cannot run.
    """
    try:
        in_file = read_config_file(config) if config is not None else {}
        for name in in_file:
            if name not in options:
                raise ConfigError(f"config {config}: {flag(name)} is none of this command's options; remove it.")
        given = {name: value for name, value in options.items() if value is not None}
        return TrainConfig(**{**defaults, **in_file, **given})
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
    kind: Any = field.kind
    if field.choices:
        kind = click.Choice([each for each in field.choices if each])
    form = "TEXT" if field.choices else None  # the help has a sentence about the choices
    return click.option(f"--{field.key}", *field.aliases, field.name, type=kind, metavar=form, help=help_text)
