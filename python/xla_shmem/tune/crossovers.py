"""Sizes at which another backend or way becomes faster, by the rules of the pass."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from xla_shmem import gpu_ways
from xla_shmem.options.tuning_table import Table


@dataclasses.dataclass(frozen=True)
class Curve:
    """The choices of a table for one op, element type, group size and number of domains.

    Attributes:
      op, dtype, group, domains: key of the curve.
      choices: (bytes, choice): ``"NVSHMEM"``, ``"HIERARCHICAL"``, ``"DEFAULT"`` or the name of a way that the pass can
        choose, from this size on. The first size is the smallest measured one.
      last: largest measured size in bytes.
    """

    op: str
    dtype: str
    group: int
    domains: int
    choices: tuple[tuple[int, str], ...]
    last: int


def curves(table: Table) -> Iterator[Curve]:
    """Yields the curves of a job with one device a process, in the order of measuring. A tie counts as DEFAULT."""
    core = table.core(table.platform)
    settable = gpu_ways.settable(table.platform)
    sizes_of: dict[tuple[str, str, int, int], list[int]] = {}
    for row in table.rows:
        sizes_of.setdefault((row.op, row.dtype, row.group, row.domains), []).append(row.bytes)
    for (op, dtype, group, domains), sizes in sizes_of.items():

        def choice(size: int, op: str = op, dtype: str = dtype, group: int = group, domains: int = domains) -> str:
            faster = core.faster(op, dtype, group, size, domains, settable=settable)
            return "DEFAULT" if faster is None or faster == "neither" else faster

        yield Curve(op, dtype, group, domains, tuple(_changes(sorted(sizes), choice)), max(sizes))


def _changes(sizes: list[int], choice: Callable[[int], str]) -> Iterator[tuple[int, str]]:
    yield sizes[0], choice(sizes[0])
    for low, high in itertools.pairwise(sizes):
        if choice(low) != choice(high):
            yield _first_with(choice(high), low, high, choice), choice(high)


def _first_with(wanted: str, low: int, high: int, choice: Callable[[int], str]) -> int:
    """Returns a size in (low, high] from which on the choice is `wanted`."""
    while high - low > 1:
        middle = (low + high) // 2
        if choice(middle) == wanted:
            high = middle
        else:
            low = middle
    return high
