"""Readers of option values.

A reader takes the text that the user wrote and returns the option's value (units: :class:`xla_shmem.options.Options`).
It raises ``ValueError`` with the allowed values, in words that follow "must be". ``one_of`` and ``count`` make readers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

KIB = 1024
MIB = 1024 * KIB

#: Value of ``THRESHOLD=none``, here and in the compiler pass.
NO_THRESHOLD = 2**63 - 1

#: Ops that ``OPS`` may list, in the order of ``all``.
OPS = (
    "all-reduce",
    "collective-permute",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-broadcast",
    "ragged-all-to-all",
)

#: Short names, read wherever an op is named.
OP_ALIASES = {"permute": "collective-permute", "broadcast": "collective-broadcast"}

#: Bytes for ``HEAP_SIZE=auto``: the first, or less if /dev/shm is small, but at least the second.
AUTO_HEAP_SIZE = 64 * MIB
MIN_HEAP_SIZE = 8 * MIB

_SIZE = re.compile(r"(\d+)\s*(B|K|KiB|M|MiB|G|GiB)?", re.ASCII | re.IGNORECASE)
_SIZE_UNIT = {"b": 1, "k": KIB, "m": MIB, "g": 1024 * MIB}
_JOB = re.compile(r"[0-9a-f]{32}", re.ASCII)
_INT64_MAX = 2**63 - 1


def parse_size(text: str) -> int:
    """Reads a size such as ``16MiB``, ``4K`` or ``65536`` and returns bytes.

    ``K``, ``M`` and ``G`` (with or without ``iB``) are powers of 1024; case does not matter. Decimal units
    (``MB``), fractions and signs are refused.

    Raises:
      ValueError: the text is not such a size, or does not fit in a signed 64-bit integer.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("a size in bytes such as 16MiB, 4K or 65536")
    number, unit = match.groups()
    size = int(number) * _SIZE_UNIT[(unit or "B")[0].lower()]
    if size > _INT64_MAX:
        raise ValueError("a size below 2^63 bytes")
    return size


def threshold(text: str) -> int:
    return NO_THRESHOLD if text.strip().lower() == "none" else parse_size(text)


def _op(text: str) -> tuple[str, int | None]:
    name, limited, limit = (part.strip() for part in text.partition("<"))
    name = OP_ALIASES.get(name, name)
    if name not in OPS:
        raise ValueError(f"'default', 'all' or a list such as all-reduce<16MiB,all-gather out of {', '.join(OPS)}")
    try:
        return name, parse_size(limit) if limited else None
    except ValueError as error:
        raise ValueError(f"a list with, after {name}<, {error}") from None


def ops(text: str) -> tuple[tuple[str, int | None], ...]:
    """Returns (op, limit in bytes or None) of each listed op, in the order of OPS; nothing for ``default``."""
    name = text.strip().lower()
    if name in ("default", "blog"):  # "blog" is the name of release 0.1
        return ()
    listed = [_op(part) for part in (",".join(OPS) if name == "all" else name).split(",")]
    names = [op for op, _ in listed]
    if len(set(names)) < len(names):
        raise ValueError("a list that names every op once")
    return tuple(sorted(listed, key=lambda entry: OPS.index(entry[0])))


def heap_size(text: str) -> int | None:
    if text.strip().lower() == "auto":
        return None
    try:
        size = parse_size(text)
    except ValueError:
        size = 0
    if size < MIN_HEAP_SIZE:
        raise ValueError("'auto' or a size of at least 8MiB")
    return size


def one_of(*allowed: str, **aliases: str) -> Callable[[str], str]:
    """Returns a reader of the allowed words. ``aliases``: a former name → the word that it stands for."""

    def parse(text: str) -> str:
        word = text.strip().lower()
        word = aliases.get(word, word)
        if word not in allowed:
            *names, last = (f"'{value}'" for value in allowed)
            raise ValueError(f"{', '.join(names)} or {last}")
        return word

    return parse


def count(minimum: int, maximum: int, what: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text.strip(), re.ASCII) or not minimum <= int(text) <= maximum:
            raise ValueError(what)
        return int(text)

    return parse


def domain(text: str) -> int | None:
    names = {"auto": None, "host": 0}
    if (name := text.strip().lower()) in names:
        return names[name]
    return count(1, 2**31 - 1, "'auto', 'host' or a number of devices ≥ 1")(text)


def library(text: str) -> str:
    if "/" not in text:
        raise ValueError("a path with a / in it, such as /opt/nvshmem/lib/libnvshmem_host.so.3")
    return text


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise ValueError("a number of seconds > 0")
    return value


def job(text: str) -> str:
    if not _JOB.fullmatch(text):
        raise ValueError("32 lower-case hexadecimal digits, as set by `xla-shmem launch`")
    return text
