"""The fields of `TrainConfig` as config files, command lines and the documentation present them. Free of JAX."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from xla_shmem.train.config import TrainConfig, flag


@dataclasses.dataclass(frozen=True)
class ConfigField:
    """One field of a training job.

    Attributes:
      name: attribute of `TrainConfig`.
      kind: bool, int, float or str.
      default: value if the field is not given; None or "" means that there is none.
      help: one sentence.
      choices: the allowed values, if they are a list.
      aliases: other options of the command line, such as `--seq`.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...]
    aliases: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name as options and the documentation spell it."""
        return flag(self.name)


def _config_fields() -> Mapping[str, ConfigField]:
    hints = typing.get_type_hints(TrainConfig)
    return types.MappingProxyType(
        {
            field.name: ConfigField(field.name, _kind(hints[field.name]), field.default, **field.metadata)
            for field in dataclasses.fields(TrainConfig)
        }
    )


def _kind(hint: Any) -> type:
    """The type of a hint such as `int` or `int | None`."""
    if isinstance(hint, types.UnionType):
        (hint,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
    assert isinstance(hint, type)
    return hint


#: All fields by name, in the order of `TrainConfig`.
FIELDS = _config_fields()
