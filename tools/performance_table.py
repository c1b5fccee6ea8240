"""Writes the tables of docs/performance.md from the measurements in docs/data: ``python tools/performance_table.py``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` and shows ``docs/data/NAME.json``. Such a file has
machine, date and software, the command of each run, and under ``collectives`` an object for each op and size:

* ``op``: the HLO name. ``bytes``: of the larger of a PE's two buffers.
* ``free``, ``bound``, ``four``: a run, with ``shmem_us``, ``gloo_us`` and ``mpi_us`` (medians, µs), the ratios
  ``gloo_ratio`` and ``mpi_ratio`` (the other transport's time over SHMEM's, from unrounded times), and
  ``limit_percent``: the time of a memcpy of the same bytes in % of SHMEM's, for single copies and for two.

The file of a job on several hosts is the output of ``benchmarks/hosts_benchmark.py``; its form is described there.
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
    if "rows" in measured:
        return _hosts_table(measured["rows"])
    return _HEADING + "".join(_row(row) for row in measured["collectives"])


def _row(row: dict[str, Any]) -> str:
    free, bound, four = row["free"], row["bound"], row["four"]
    cells = [row["op"], _size(row["bytes"])]
    cells += [f"{free['shmem_us']:,}", f"{free['gloo_ratio']:.1f}", f"{free['mpi_ratio']:.2f}"]
    cells += [f"{bound['shmem_us']:,}", f"{bound['mpi_ratio']:.2f}"]
    cells += [f"{four['shmem_us']:,}", f"{four['gloo_ratio']:.1f}", f"{four['mpi_ratio']:.2f}"]
    return f"|{'|'.join(cells)}|\n"


def _hosts_table(rows: list[dict[str, Any]]) -> str:
    """Bytes between hosts, and at each rate the default backend's time, and that time over those with the flag on."""
    rates = sorted({row["rate"] for row in rows}, key=lambda rate: (len(rate), rate))
    found = {(row["op"], row["bytes"], row["rate"]): row["variants"] for row in rows}
    on_mpi = "mpi" in rows[0]["variants"]
    default, backend, split = ("mpi", "MPI", "split-mpi") if on_mpi else ("stock", "gloo", "split")
    ours = {split: "split"} if on_mpi else {split: "split", "whole": "whole"}
    lines = [f"|op|bytes|sent by {backend}|split|", "|---|---:|---:|---:|"]
    for rate in rates:
        lines[0] += f"{rate.replace('gbit', ' Gbit/s')}: {backend} µs|" + "".join(
            f"× {name}|" for name in ours.values()
        )
        lines[1] += "---:|" * (1 + len(ours))
    for op, size in sorted({(row["op"], row["bytes"]) for row in rows}):
        of_rates = [found.get((op, size, rate), {}) for rate in rates]
        cells = [op, _size(size), *(_sent(of_rates, name) for name in (default, split))]
        for variants in of_rates:
            whole = variants.get(default, {}).get("us")
            cells += [f"{whole:,.0f}" if whole else "-"]
            cells += [_times_as_fast(whole, variants.get(name, {})) for name in ours]
        lines.append(f"|{'|'.join(cells)}|")
    return "".join(f"{line}\n" for line in lines)


def _sent(of_rates: list[dict[str, Any]], name: str) -> str:
    counted = [variants[name]["between_hosts"] for variants in of_rates if "us" in variants.get(name, {})]
    return f"{min(counted):.2f}" if counted else "-"


def _times_as_fast(stock: float | None, found: dict[str, Any]) -> str:
    if "us" not in found:
        return "-"
    return f"{stock / found['us']:.2f}" if stock else f"{found['us']:,.0f} µs"


def _size(size: int) -> str:
    return f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(), DOCS / "data"))
