"""Selects the collectives of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_shmem.hlo.files import HloFileError
from xla_shmem.options.values import OP_ALIASES, OPS, parse_size


@dataclass(frozen=True)
class Selection:
    """Conditions on a collective. It must meet all of them.

    Attributes:
      ops: its op is one of these; empty: any op.
      backend: it runs on this backend, ``"NVSHMEM"`` or ``"DEFAULT"``. That is the decision after vetoes.
      min_bytes: smallest number of bytes of its result.
      in_loop: whether it runs inside a loop.
    """

    ops: Sequence[str] = ()
    backend: str | None = None
    min_bytes: int = 0
    in_loop: bool | None = None

    def __call__(self, record: Mapping[str, Any]) -> bool:
        return (
            (not self.ops or record["op"] in self.ops)
            and self.backend in (None, record["lowered"])
            and record["bytes"] >= self.min_bytes
            and self.in_loop in (None, record["in_loop"])
        )


def read_selection(ops: Sequence[str], backend: str | None, min_bytes: str | None, in_loop: bool | None) -> Selection:
    """Reads the options of the command line.

    Raises:
      HloFileError: an op is unknown, or the size cannot be read.
    """
    ops = tuple(OP_ALIASES.get(op, op) for op in ops)
    for op in ops:
        if op not in OPS:
            raise HloFileError(f"--op {op}: no such collective; use {', '.join(OPS)}.")
    try:
        size = 0 if min_bytes is None else parse_size(min_bytes)
    except ValueError as error:
        raise HloFileError(f"--min-bytes {min_bytes}: must be {error}.") from None
    return Selection(ops, backend, size, in_loop)
