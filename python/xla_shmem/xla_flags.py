"""The switch: ``--xla_gpu_experimental_enable_nvshmem`` in ``XLA_FLAGS``.

The flag is read and removed, because current XLA ignores it or ends the process with an error. ``XLA_FLAGS`` is split
into flags as in XLA's ``parse_flags_from_env.cc``, and the value is read as in ``tsl/util/command_line_flags.cc``, so
the result is the same as XLA's would be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping

FLAG = "--xla_gpu_experimental_enable_nvshmem"

#: Set to "1" if the flag was on, so that child processes inherit the choice although the flag is removed.
MARKER = "XLA_SHMEM_ENABLED"

_WHITESPACE = " \t\r\n"
_NAME = re.compile(r"[-_A-Za-z0-9]*")
_UNQUOTED = re.compile(rf"[^{_WHITESPACE}]*")
# XLA handles backslashes in double quotes only; a quote that is never closed runs to the end.
_QUOTED = re.compile(r"""=(?:"((?:\\.|[^"\\])*)(?:"|\\?\Z)|'([^']*)(?:'|\Z))""", re.DOTALL)


def _tokens(xla_flags: str) -> Iterator[tuple[int, int, str]]:
    """Yields (begin, end, argument) of each flag; stops where XLA stops, at the first word without a dash."""
    begin = 0
    while True:
        while begin < len(xla_flags) and xla_flags[begin] in _WHITESPACE:
            begin += 1
        if begin == len(xla_flags) or xla_flags[begin] != "-":
            return
        name = _NAME.match(xla_flags, begin)
        assert name is not None
        if quoted := _QUOTED.match(xla_flags, name.end()):
            end = quoted.end()
            double, single = quoted.groups()
            value = single if double is None else re.sub(r"\\(.)", r"\1", double, flags=re.DOTALL)
            yield begin, end, f"{name.group()}={value}"
        else:
            rest = _UNQUOTED.match(xla_flags, name.end())
            assert rest is not None
            end = rest.end()
            yield begin, end, xla_flags[begin:end]
        begin = end


def _is_ours(argument: str) -> bool:
    return argument.partition("=")[0] == FLAG


def _value(argument: str) -> bool | None:
    """Returns the value that an argument gives our flag, None if it is another flag."""
    if argument == FLAG:
        return True
    if not _is_ours(argument):
        return None
    value = argument.partition("=")[2]
    if value == "1" or value.lower() == "true":
        return True
    if value == "0" or value.lower() == "false":
        return False
    raise ValueError(f"XLA_FLAGS: {FLAG}={value}: must be true, false, 1 or 0.")


def flag_values(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of the flags in ``XLA_FLAGS`` by their names without dashes, "" for a flag without a value."""
    flags = (argument.partition("=") for _, _, argument in _tokens(environ.get("XLA_FLAGS", "")))
    return {name.lstrip("-"): value for name, _, value in flags}


def read_flag(environ: Mapping[str, str]) -> bool | None:
    """Returns the flag's value and changes nothing; None if neither the flag nor the marker is set.

    The last occurrence wins, as in XLA. The marker counts only when ``XLA_FLAGS`` does not hold the flag.
    If ``XLA_FLAGS`` names a flag file, that file is not read.

    Raises:
      ValueError: the flag's value is not a bool as XLA reads them (true, false, 1, 0; any case).
    """
    value: bool | None = None
    for _, _, argument in _tokens(environ.get("XLA_FLAGS", "")):
        found = _value(argument)
        value = value if found is None else found
    if value is None and environ.get(MARKER) == "1":
        return True
    return value


def take_flag(environ: MutableMapping[str, str]) -> bool | None:
    """Returns the flag's value, removes it from ``XLA_FLAGS`` and leaves the marker for child processes.

    On: the marker is set. Off: the marker is removed.

    Raises:
      ValueError: as :func:`read_flag`. Nothing is changed then.
    """
    value = read_flag(environ)
    remove_flag(environ)
    if value:
        environ[MARKER] = "1"
    else:
        environ.pop(MARKER, None)
    return value


def remove_flag(environ: MutableMapping[str, str]) -> None:
    """Removes every occurrence of the flag from ``XLA_FLAGS``, with whatever value; the rest does not change.

    If no other flag is left, the variable is unset, because XLA would read the rest as the name of a flag file.
    """
    xla_flags = environ.get("XLA_FLAGS", "")
    kept, position = [], 0
    for begin, end, argument in _tokens(xla_flags):
        if _is_ours(argument):
            kept.append(xla_flags[position:begin])
            position = end
    if position:
        remaining = "".join(kept) + xla_flags[position:]
        if remaining.lstrip(_WHITESPACE).startswith("-"):
            environ["XLA_FLAGS"] = remaining
        else:
            del environ["XLA_FLAGS"]


def set_flag(environ: MutableMapping[str, str]) -> None:
    """Switches the flag on for a process that has not begun with JAX, and for its children; replaces another value.

    Raises:
      ValueError: as :func:`read_flag`. Nothing is changed then.
    """
    take_flag(environ)
    environ[MARKER] = "1"


def restore_flag(environ: MutableMapping[str, str]) -> None:
    """Puts the flag into ``XLA_FLAGS`` if only the marker says that it is on, for an XLA that reads the flag.

    Raises:
      ValueError: as :func:`read_flag`. Nothing is changed then.
    """
    if read_flag(environ) and not read_flag({"XLA_FLAGS": environ.get("XLA_FLAGS", "")}):
        environ["XLA_FLAGS"] = " ".join(filter(None, [environ.get("XLA_FLAGS"), f"{FLAG}=true"]))
