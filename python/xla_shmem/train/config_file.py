"""Config files: TOML with the fields of `TrainConfig` as keys."""

from __future__ import annotations

import dataclasses
import sys
import tomllib
import types
import typing
from pathlib import Path
from typing import Any

from xla_shmem.train.config import ConfigError, TrainConfig, flag, unknown

#: Keys of releases before 0.2; each is read and its new name is printed on stderr.
FORMER_KEYS = {"warmup": "warmup_steps", "out": "output"}

_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def field_type(name: str) -> type:
    """The type of a field's values, None aside."""
    hint = typing.get_type_hints(TrainConfig)[name]
    if isinstance(hint, types.UnionType):
        (hint,) = (each for each in typing.get_args(hint) if each is not types.NoneType)
    assert isinstance(hint, type)
    return hint


def read_config_file(path: Path) -> dict[str, Any]:
    """The fields that a file gives, by name; keys may be spelled with `-` or `_`.

    Raises:
      ConfigError: no such file, not TOML, a key that is no field, or a value of another type.
    """
    try:
        entries = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config {path} is not TOML: {error}.") from None
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    fields = {}
    for key, value in entries.items():
        name = key.replace("-", "_")
        if name in FORMER_KEYS:
            name = FORMER_KEYS[name]
            print(f"config {path}: {key} is now {flag(name)}; this name goes in 0.3", file=sys.stderr)
        if name not in names:
            raise ConfigError(unknown(f"config {path}: a key", name, names))
        expected = field_type(name)
        if expected is float and type(value) is int:
            value = float(value)
        if type(value) is not expected:
            raise ConfigError(
                f"config {path}: {key} is {value!r}, and has to be {_NAMES[expected]}"
                + (f", without the quotes: {key} = {value}." if isinstance(value, str) and expected is not str else ".")
            )
        fields[name] = value
    return fields
