"""The table of options (xla_patch/options/table.cc), which the compiled module holds."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from xla_shmem import _core
from xla_shmem.options.values import OptionError

#: All options by name, in the order of the documentation.
TABLE = MappingProxyType({option.name: option for option in _core.options()})


def read(option: _core.Option, source: str, text: str) -> Any:
    """Returns the value that ``text`` stands for (:class:`xla_shmem.options.Options` has the units).

    Args:
      source: the variable or the keyword, for the error.

    Raises:
      OptionError: the value is not allowed.
    """
    try:
        value = option.read(text.encode(errors="surrogateescape"))
    except ValueError as error:
        raise OptionError(f"{source}={text!r}: must be {error}.") from None
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
