"""The table of a comparison, with the columns of the write-up's Table 2, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from xla_shmem.compare.results import CONFIDENCE, Interval, Row
from xla_shmem.train.job_run import Variant
from xla_shmem.train.step_times import MEASURED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {Variant.SHMEM: "#0b6e4f", Variant.STOCK: "#e07a1f"}
_MARKERS = "os^Dv*"


def table(rows: Sequence[Row]) -> Table:
    """One line for each job."""
    first, last = MEASURED
    job = ("sequence", "CP", "TP", "devices", "seq/device")
    measured = ("default", "SHMEM", "speed-up", "default ms", "SHMEM ms", "losses differ")
    result = _empty_table(f"Medians of steps {first}-{last}; TFLOP/s of each device", (*job, *measured))
    for row in rows:
        config = row.config
        result.add_row(
            f"{config.sequence:,}",
            str(config.context),
            str(config.tensor),
            str(config.devices),
            f"{config.sequence // config.context:,}",
            *(f"{row.tflops(variant):.3g}" for variant in (Variant.STOCK, Variant.SHMEM)),
            f"{row.speed_up:.2f}x",
            *(f"{row.times(variant).median * 1e3:.1f}" for variant in (Variant.STOCK, Variant.SHMEM)),
            f"{row.largest_difference():.0e}",
        )
    return result


def ring_table(rows: Sequence[Row]) -> Table:
    """What the ring adds to a step of each job, and of what it consists."""
    result = _empty_table(
        f"What the ring adds to a step, and of that its transfers: ms, medians with {CONFIDENCE:.0%} intervals",
        ("sequence", "CP", "TP", "default ring", "SHMEM ring", "default transfers", "SHMEM transfers"),
    )
    for row in rows:
        config = row.config
        result.add_row(
            f"{config.sequence:,}",
            str(config.context),
            str(config.tensor),
            *(_milliseconds(row.exposed(variant)) for variant in (Variant.STOCK, Variant.SHMEM)),
            *(_milliseconds(row.transfers(variant)) for variant in (Variant.STOCK, Variant.SHMEM)),
        )
    return result


def _empty_table(title: str, columns: Sequence[str]) -> Table:
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in columns:
        result.add_column(name, justify="right")
    return result


def _milliseconds(interval: Interval) -> str:
    median, low, high = (f"{seconds * 1e3:.1f}" for seconds in interval)
    return f"{median} ({low} to {high})"


def save_picture(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Saves a PNG: over the sequence's length the speed-up, and what the ring adds to a step on each transport."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(14, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    speed, ring, transfers = figure.subplots(1, 3)
    meshes = list(dict.fromkeys((row.config.context, row.config.tensor) for row in rows))
    shapes = []
    for number, mesh in enumerate(meshes):
        marker = _MARKERS[number % len(_MARKERS)]
        shapes.append(Line2D([], [], color="0.3", marker=marker, label=f"CP {mesh[0]}, TP {mesh[1]}"))
        of_mesh = sorted(
            (row for row in rows if (row.config.context, row.config.tensor) == mesh),
            key=lambda row: row.config.sequence,
        )
        lengths = [row.config.sequence for row in of_mesh]
        speed.plot(lengths, [row.speed_up for row in of_mesh], marker=marker, color=_COLOURS[Variant.SHMEM], lw=1.4)
        for variant in _COLOURS:
            _plot_intervals(ring, lengths, [row.exposed(variant) for row in of_mesh], variant, marker)
            _plot_intervals(transfers, lengths, [row.transfers(variant) for row in of_mesh], variant, marker)
    speed.axhline(1.0, color="0.6", lw=1, ls="--")
    speed.set_title("Speed-up of the median step, SHMEM over default", fontsize=10, loc="left")
    speed.set_ylim(bottom=0)
    speed.legend(handles=shapes, frameon=False, fontsize=8)
    labels = {Variant.SHMEM: "SHMEM", Variant.STOCK: "default"}
    colours = [Line2D([], [], color=colour, label=labels[variant]) for variant, colour in _COLOURS.items()]
    for axes, what in ((ring, "What the ring adds to a step"), (transfers, "Of that, its transfers")):
        axes.axhline(0.0, color="0.6", lw=1)
        axes.set_title(f"{what} (ms, {CONFIDENCE:.0%} intervals)", fontsize=10, loc="left")
        axes.legend(handles=[*colours, *shapes], frameon=False, fontsize=8)
    lengths = sorted({row.config.sequence for row in rows})
    for axes in (speed, ring, transfers):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=8)
        axes.minorticks_off()
        axes.set_xlabel("tokens in a sequence")
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _plot_intervals(
    axes: Axes, lengths: Sequence[int], intervals: Sequence[Interval], variant: Variant, marker: str
) -> None:
    """A line through the medians, in milliseconds, with bars from end to end of the intervals."""
    in_ms = [Interval(*(seconds * 1e3 for seconds in interval)) for interval in intervals]
    ends = [each.median - each.low for each in in_ms], [each.high - each.median for each in in_ms]
    medians = [each.median for each in in_ms]
    axes.errorbar(lengths, medians, ends, marker=marker, color=_COLOURS[variant], lw=1.4, capsize=3)
