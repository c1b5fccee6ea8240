"""Writes the tables of docs/performance.md from the measurements in docs/data: ``python tools/performance_table.py``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` and shows ``docs/data/NAME.json``. Such a file has
machine, date and software, the command of each run, and under ``collectives`` an object for each op and size:

* ``op``: the HLO name. ``bytes``: of the larger of a PE's two buffers.
* ``free``, ``bound``, ``four``: a run, with ``shmem_us``, ``gloo_us`` and ``mpi_us`` (medians, µs), the ratios
  ``gloo_ratio`` and ``mpi_ratio`` (the other transport's time over SHMEM's, from unrounded times), and
  ``limit_percent``: the time of a memcpy of the same bytes in % of SHMEM's, for single copies and for two.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"

_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADING = """\
|op|bytes|free µs|× gloo|× MPI|bound µs|× MPI|four µs|× gloo|× MPI|
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def with_tables(page: str, data: Path) -> str:
    """The page with every marked table replaced.

    Raises:
      FileNotFoundError: ``data`` has no file of a marked name.
      ValueError: the page marks no table.
    """
    if not _TABLE.search(page):
        raise ValueError("the page marks no table: <!-- table: NAME --> … <!-- end -->")

    def made(found: re.Match[str]) -> str:
        before, name, after = found.groups()
        return before + table(json.loads((data / f"{name}.json").read_text())) + after

    return _TABLE.sub(made, page)


def table(measured: dict[str, Any]) -> str:
    """The Markdown table of one machine: SHMEM's times, and those of the others over them."""
    return _HEADING + "".join(_row(row) for row in measured["collectives"])


def _row(row: dict[str, Any]) -> str:
    free, bound, four = row["free"], row["bound"], row["four"]
    cells = [row["op"], _size(row["bytes"])]
    cells += [f"{free['shmem_us']:,}", f"{free['gloo_ratio']:.1f}", f"{free['mpi_ratio']:.2f}"]
    cells += [f"{bound['shmem_us']:,}", f"{bound['mpi_ratio']:.2f}"]
    cells += [f"{four['shmem_us']:,}", f"{four['gloo_ratio']:.1f}", f"{four['mpi_ratio']:.2f}"]
    return f"|{'|'.join(cells)}|\n"


def _size(size: int) -> str:
    return f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(), DOCS / "data"))
