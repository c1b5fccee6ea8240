"""Values of options, for modules that must not need the compiled module.

tests/bindings/test_collective_ops.py and tests/python/options compare the constants with the compiled module.
"""

from __future__ import annotations

from xla_shmem.errors import UserError


class OptionError(UserError, ValueError):
    """A value is not allowed; the message names the option, the value and the allowed values."""


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
AUTO_HEAP_SIZE = 64 << 20
MIN_HEAP_SIZE = 8 << 20


def parse_size(text: str) -> int:
    """Reads a size such as ``16MiB``, ``4K`` or ``65536`` and returns bytes.

    ``K``, ``M`` and ``G`` (with or without ``iB``) are powers of 1024; case does not matter. Decimal units
    (``MB``), fractions and signs are refused.

    Raises:
      ValueError: the text is not such a size, or does not fit in a signed 64-bit integer.
    """
    from xla_shmem import _core

    return _core.read_size(text.encode(errors="surrogateescape"))
