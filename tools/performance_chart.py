"""Draws the charts of docs/performance.md from the measurements in docs/data: ``python tools/performance_chart.py``.

The file of one host is the output of ``benchmarks/peers_benchmark.py``, whose doc string describes it.
The file of a job on several hosts is the output of ``benchmarks/hosts_benchmark.py``; its form is described there.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"

OPS = ("collective-permute", "all-reduce", "all-gather", "reduce-scatter", "all-to-all")

#: In user units, which are pixels at the picture's own size.
_WIDTH, _COLUMNS, _PANEL_WIDTH, _PANEL_HEIGHT, _LEFT, _TOP = 640, 2, 252, 116, 48, 44
_COLUMN_STEP, _ROW_STEP = 308, 172

_STYLE = """\
    :root { --paper: #ffffff; --frame: #d5dbe0; --text: #1d2329; --soft: #59646e; --grid: #e3e7eb;
      --first: #0b7a57; --second: #b5530a; --third: #6b3fa0; }
    @media (prefers-color-scheme: dark) {
      :root { --paper: #1e2129; --frame: #3d4450; --text: #e8ebee; --soft: #a9b4be; --grid: #343a45;
        --first: #4fd1a1; --second: #f0a35e; --third: #c3a1f0; }
    }
    .paper { fill: var(--paper); stroke: var(--frame); }
    .head { font-size: 15px; font-weight: bold; fill: var(--text); }
    .text { font-size: 14px; fill: var(--text); }
    .soft { font-size: 12px; fill: var(--soft); }
    .grid { stroke: var(--grid); fill: none; }
    .one { stroke: var(--soft); stroke-width: 1.6; fill: none; }
    .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
    .first { stroke: var(--first); }
    .second { stroke: var(--second); }
    .third { stroke: var(--third); }
    .dashed { stroke-dasharray: 6 4; }
"""


@dataclasses.dataclass(frozen=True)
class Line:
    """One line in every panel of a chart.

    Attributes:
      label: its words in the legend.
      style: classes of the picture's style.
      points: for each op its sizes in bytes and how many times as fast SHMEM is.
    """

    label: str
    style: str
    points: dict[str, list[tuple[int, float]]]


def one_host(rows: Sequence[dict[str, Any]]) -> list[Line]:
    """Lines of a run beside the peers: between processes against SHMEM there, in one process against SHMEM in one.

    Without gloo, which is slower by orders of magnitude.
    """
    return [
        Line(
            label,
            style,
            _by_op(
                (row["op"], row["bytes"], row["variants"][rival]["p50_us"] / row["variants"][base]["p50_us"])
                for row in rows
                if rival in row["variants"]
            ),
        )
        for rival, base, label, style in (
            ("openmpi", "shmem", "Open MPI", "second"),
            ("mpich", "shmem", "MPICH", "second dashed"),
            ("deepspeed", "shmem", "DeepSpeed", "third"),
            ("xla-1", "shmem-1", "XLA in one process", "first"),
        )
    ]


def several_hosts(gloo: dict[str, Any], mpi: dict[str, Any]) -> list[Line]:
    """Lines of two hosts: collectives in parts against whole ones on gloo and on MPI, at two speeds of the link."""
    return [
        Line(
            f"{name}, {rate.removesuffix('gbit')} Gbit/s",
            f"{color} dashed" if rate == "10gbit" else color,
            _by_op(
                (row["op"], row["bytes"], row["variants"][whole]["us"] / row["variants"][split]["us"])
                for row in measured["rows"]
                if row["rate"] == rate
            ),
        )
        for measured, name, whole, split, color in (
            (gloo, "gloo", "stock", "split", "first"),
            (mpi, "Open MPI", "mpi", "split-mpi", "second"),
        )
        for rate in ("1gbit", "10gbit")
    ]


def chart(title: str, lines: Sequence[Line]) -> str:
    """An SVG picture with a panel for each op; both axes are logarithmic."""
    values = [value for line in lines for points in line.points.values() for _, value in points]
    sizes = sorted({size for line in lines for points in line.points.values() for size, _ in points})
    decade = 10 ** math.floor(math.log10(max(values)))
    limits = min(0.5, *values), next(decade * step for step in (1, 2, 5, 10) if decade * step >= max(values))
    rows = -(-(len(OPS) + 1) // _COLUMNS)
    height = _TOP + rows * _ROW_STEP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" role="img" aria-labelledby="title">',
        f'  <title id="title">{title}</title>',
        f"  <style>\n{_STYLE}  </style>",
        f'  <rect class="paper" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'  <text class="text" x="16" y="26">{title}</text>',
    ]
    for number, op in enumerate(OPS):
        parts += _panel(op, lines, sizes, limits, *_corner(number))
    parts += [*_legend(lines, *_corner(len(OPS))), "</svg>"]
    return "\n".join(parts) + "\n"


def _corner(number: int) -> tuple[float, float]:
    """The upper left corner of a panel's plot."""
    row, column = divmod(number, _COLUMNS)
    return _LEFT + column * _COLUMN_STEP, _TOP + 28 + row * _ROW_STEP


def _panel(
    op: str, lines: Sequence[Line], sizes: Sequence[int], limits: tuple[float, float], left: float, top: float
) -> list[str]:
    low, high = (math.log10(limit) for limit in limits)

    def at(size: int, value: float) -> tuple[float, float]:
        across = math.log2(size / sizes[0]) / math.log2(sizes[-1] / sizes[0])
        up = (math.log10(value) - low) / (high - low)
        return left + across * _PANEL_WIDTH, top + (1 - up) * _PANEL_HEIGHT

    parts = [f'  <text class="head" x="{left:g}" y="{top - 8:g}">{op}</text>']
    for value in _marks(*limits):
        y = at(sizes[0], value)[1]
        style = "one" if value == 1 else "grid"
        parts.append(f'  <path class="{style}" d="M{left:g} {y:.1f} H{left + _PANEL_WIDTH:g}"/>')
        parts.append(f'  <text class="soft" x="{left - 6:g}" y="{y + 4:.1f}" text-anchor="end">{value:g}×</text>')
    for size, anchor in ((sizes[0], "start"), (1 << 20, "middle"), (sizes[-1], "end")):
        x = at(size, 1.0)[0]
        label = f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
        bottom = top + _PANEL_HEIGHT + 16
        parts.append(f'  <text class="soft" x="{x:.1f}" y="{bottom:g}" text-anchor="{anchor}">{label}</text>')
    for line in lines:
        points = [at(*point) for point in line.points.get(op, [])]
        if points:
            path = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            parts.append(f'  <path class="line {line.style}" d="M{path}"/>')
    return parts


def _marks(low: float, high: float) -> list[float]:
    """The values with a line: powers of ten, and 2 and 5 times those if there are few."""
    steps = (1, 2, 5) if high / low < 50 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for power in powers for step in steps if low <= (value := step * 10.0**power) <= high]


def _legend(lines: Sequence[Line], left: float, top: float) -> list[str]:
    parts = [f'  <text class="head" x="{left:g}" y="{top - 8:g}">SHMEM is … times as fast as</text>']
    for number, line in enumerate(lines):
        y = top + 16 + 24 * number
        parts.append(f'  <path class="line {line.style}" d="M{left:g} {y - 5:g} h36"/>')
        parts.append(f'  <text class="text" x="{left + 46:g}" y="{y:g}">{line.label}</text>')
    return parts


def _by_op(rows: Iterable[tuple[str, int, float]]) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for op, size, value in sorted(rows):
        found.setdefault(op, []).append((size, value))
    return found


def charts(data: Path) -> dict[str, str]:
    """The pictures by file name."""

    def read(name: str) -> dict[str, Any]:
        return json.loads((data / f"{name}.json").read_text())  # type: ignore[no-any-return]

    peers = read("peers")
    return {
        **{
            f"{name}.svg": chart(f"{ranks} processes: AMD EPYC, 2 cores, 2026-11-29", one_host(peers["runs"][run]))
            for name, ranks, run in (("peers", "Two", "2 ranks, bound"), ("peers-4", "Four", "4 ranks, free"))
        },
        "hosts.svg": chart(
            "Two hosts of four ranks: AMD EPYC, 2 cores, 2026-11-25", several_hosts(read("hosts"), read("hosts-mpi"))
        ),
    }


if __name__ == "__main__":
    for name, picture in charts(DOCS / "data").items():
        (DOCS / "pictures" / name).write_text(picture)
