"""Reads config files: TOML whose keys are the fields of `TrainConfig`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from xla_shmem.train.config import ConfigError, unknown
from xla_shmem.train.config_fields import FIELDS

_KIND_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads the fields that a file sets, by name. Keys may be spelled with `-` or `_`.

    Raises:
      ConfigError: the file cannot be read or is not TOML, a key is unknown, or a value has the wrong type.
    """
    try:
        entries = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config {path} is not TOML: {error}.") from None
    fields = {}
    for key, value in entries.items():
        name = _field_name(path, key)
        fields[name] = _converted(path, key, value, FIELDS[name].kind)
    return fields


def _field_name(path: Path, key: str) -> str:
    name = key.replace("-", "_")
    if name not in FIELDS:
        raise ConfigError(unknown(f"config {path}: a key", name, FIELDS))
    return name


def _converted(path: Path, key: str, value: Any, kind: type) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        hint = f", without the quotes: {key} = {value}." if isinstance(value, str) else "."
        raise ConfigError(f"config {path}: {key} is {value!r}; it must be {_KIND_NAMES[kind]}{hint}")
    return value
