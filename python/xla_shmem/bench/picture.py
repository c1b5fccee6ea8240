"""A picture of latency and bandwidth over size, on logarithmic axes, with the limits that `memcpy` sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xla_shmem.bench.results import Row

_COLOURS = ("#0b6e4f", "#e07a1f", "#3c6fb4", "#a03c78", "#8a6d1b", "#4d4d4d", "#1fa5b0", "#b04a1f")
_LIMITS = (("memcpy limit, single-copy", "-"), ("memcpy limit, through slots", "--"))


def save_picture(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Saves a PNG with two plots for each operation, and two operations in a row.

    Args:
      path: path of the PNG; its folder is created if missing.
      title: text above the plots.
      rows: the measurements. Operations that no variant ran are left out.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    ops = list(dict.fromkeys(row.cell.op for row in rows if any(times.us for times in row.times.values())))
    in_row = min(len(ops), 2)
    lines = -(-len(ops) // in_row)
    figure = Figure(figsize=(11 * in_row, 0.8 + 3.6 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    plots = figure.subplots(lines, 2 * in_row, squeeze=False).reshape(-1, 2)
    for unused in plots[len(ops) :].flat:
        unused.remove()
    for op, (latency, bandwidth) in zip(ops, plots, strict=False):
        of_op = [row for row in rows if row.cell.op == op]
        _draw(latency, of_op, bandwidth=False)
        _draw(bandwidth, of_op, bandwidth=True)
        latency.set_title(f"{op}: time of one collective", fontsize=10, loc="left")
        latency.set_ylabel("µs (median, quartiles)")
        bandwidth.set_title(f"{op}: algorithm bandwidth", fontsize=10, loc="left")
        bandwidth.set_ylabel("GB/s")
        for axes in (latency, bandwidth):
            _finish(axes, of_op)
        bandwidth.legend(frameon=False, fontsize=8, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def _draw(axes: Any, rows: Sequence[Row], *, bandwidth: bool) -> None:
    """Draws the times in µs, or the same as bandwidths in GB/s."""

    def value(row: Row, us: float) -> float:
        return row.cell.bytes / us / 1e3 if bandwidth else us

    for number, variant in enumerate(dict.fromkeys(name for row in rows for name in row.times)):
        ran = [row for row in rows if variant in row.times and row.times[variant].us]
        if not ran:
            continue
        x = [row.cell.bytes for row in ran]
        quartiles = [[value(row, row.times[variant].quantile(q)) for row in ran] for q in (0.25, 0.5, 0.75)]
        colour = _COLOURS[number % len(_COLOURS)]
        axes.fill_between(x, quartiles[0], quartiles[2], color=colour, alpha=0.2, lw=0)
        axes.plot(x, quartiles[1], "o-", ms=3, lw=1.4, color=colour, label=variant)
    limited = [(row, limits) for row in rows if (limits := row.memcpy_limits_us()) is not None]
    for which, (label, style) in enumerate(_LIMITS if limited else ()):
        y = [value(row, limits[which]) for row, limits in limited]
        axes.plot([row.cell.bytes for row, _ in limited], y, style, lw=1, color="0.45", label=label)


def _finish(axes: Any, rows: Sequence[Row]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    shown = [row.cell.bytes for row in rows]
    marks = [1 << power for power in range(0, 41, 2) if min(shown) <= 1 << power <= max(shown)]
    axes.set_xticks(marks, [_short(mark) for mark in marks], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("bytes")
    axes.grid(color="0.9", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _short(size: int) -> str:
    for unit in ("", "K", "M", "G"):
        if size < 1024 or unit == "G":
            break
        size //= 1024
    return f"{size}{unit}"
