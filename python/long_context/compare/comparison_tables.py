"""The tables of a comparison, with the columns of Table 2 in NVIDIA's post, and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from long_context.compare.rows import CONFIDENCE, Interval, Row
from long_context.compare.variants import Variant
from long_context.train.step_times import MEASURED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {Variant.STOCK: "default", Variant.SHMEM: "SHMEM"}
_COLOURS = {Variant.SHMEM: "#0b6e4f", Variant.STOCK: "#e07a1f"}
_MARKERS = "os^Dv*"

_Mesh = tuple[int, int]  # degrees of context and tensor parallelism


def table(rows: Sequence[Row]) -> Table:
    """One line per job: throughput, speed-up, step times and the difference of losses."""
    first, last = MEASURED
    job = ("sequence", "CP", "TP", "devices", "seq/device")
    measured = ("default", "SHMEM", "speed-up", "default ms", "SHMEM ms", "losses differ")
    result = _empty_table(f"Medians of steps {first}-{last}; TFLOP/s of each device", (*job, *measured))
    for row in rows:
        result.add_row(
            *_job(row),
            *(f"{row.means(variant).median_tflops_per_device:.3g}" for variant in _LABELS),
            f"{row.speed_up:.2f}x",
            *(f"{row.times(variant).median * 1e3:.1f}" for variant in _LABELS),
            f"{row.largest_difference():.0e}",
        )
    return result


def means_table(rows: Sequence[Row]) -> Table:
    """One line per job with the columns of Table 2 in NVIDIA's post, from the same steps."""
    first, last = MEASURED
    result = _empty_table(
        f"As in NVIDIA's post: means of steps {first}-{last} on rank 0; TFLOP/s of each device",
        ("sequence", "CP", "TP", "devices", "seq/device", "default", "SHMEM", "gain", "default ms", "SHMEM ms"),
    )
    for row in rows:
        found = [row.means(variant) for variant in _LABELS]
        result.add_row(
            *_job(row),
            *(f"{each.tflops_per_device:.3g}" for each in found),
            f"{row.gain:+.1%}",
            *(f"{each.step_s * 1e3:.1f}" for each in found),
        )
    return result


def _job(row: Row) -> tuple[str, ...]:
    config = row.config
    counts = (config.context, config.tensor, config.devices)
    return (f"{config.sequence:,}", *map(str, counts), f"{config.sequence // config.context:,}")


def ring_table(rows: Sequence[Row]) -> Table:
    """One line per job: what the ring adds to a step, and the part of it that its transfers take."""
    result = _empty_table(
        f"What the ring adds to a step, and of that its transfers: ms, medians with {CONFIDENCE:.0%} intervals; "
        "noise: the interval is not above 0",
        ("sequence", "CP", "TP", "default ring", "SHMEM ring", "default transfers", "SHMEM transfers"),
    )
    for row in rows:
        config = row.config
        result.add_row(
            f"{config.sequence:,}",
            str(config.context),
            str(config.tensor),
            *(_milliseconds(row.exposed(variant)) for variant in _LABELS),
            *(_milliseconds(row.transfers(variant)) for variant in _LABELS),
        )
    return result


def _empty_table(title: str, columns: Sequence[str]) -> Table:
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in columns:
        result.add_column(name, justify="right")
    return result


def _milliseconds(interval: Interval) -> str:
    median, low, high = (f"{seconds * 1e3:.1f}" for seconds in interval)
    return f"{median if interval.above_noise else 'noise'} ({low} to {high})"


def save_picture(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Saves a PNG: over the sequence length the speed-up, and what the ring adds to a step on each transport."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    meshes: dict[_Mesh, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.config.sequence):
        meshes.setdefault((row.config.context, row.config.tensor), []).append(row)
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    speed, ring = figure.subplots(1, 2)
    _draw_speed_up(speed, meshes)
    _draw_ring(ring, meshes)
    lengths = sorted({row.config.sequence for row in rows})
    for axes in (speed, ring):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=8)
        axes.minorticks_off()
        axes.set_xlabel("tokens in a sequence")
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_speed_up(axes: Axes, meshes: Mapping[_Mesh, Sequence[Row]]) -> None:
    for number, ((context, tensor), rows) in enumerate(meshes.items()):
        lengths = [row.config.sequence for row in rows]
        axes.plot(
            lengths,
            [row.speed_up for row in rows],
            marker=_MARKERS[number % len(_MARKERS)],
            color=_COLOURS[Variant.SHMEM],
            lw=1.4,
            label=f"CP {context}, TP {tensor}",
        )
    axes.axhline(1.0, color="0.6", lw=1, ls="--")
    axes.set_title("Speed-up of the median step, SHMEM over default", fontsize=10, loc="left")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _draw_ring(axes: Axes, meshes: Mapping[_Mesh, Sequence[Row]]) -> None:
    from matplotlib.lines import Line2D

    for number, rows in enumerate(meshes.values()):
        lengths = [row.config.sequence for row in rows]
        marker = _MARKERS[number % len(_MARKERS)]
        for variant in _COLOURS:
            _draw_intervals(axes, lengths, [row.exposed(variant) for row in rows], variant, marker)
    axes.axhline(0.0, color="0.6", lw=1)
    axes.set_title(f"What the ring adds to a step (ms, {CONFIDENCE:.0%} intervals)", fontsize=10, loc="left")
    handles = [Line2D([], [], color=colour, label=_LABELS[variant]) for variant, colour in _COLOURS.items()]
    handles.append(Line2D([], [], color="0.3", ls="", marker="o", mfc="white", label="hollow: not above noise"))
    axes.legend(handles=handles, frameon=False, fontsize=8)


def _draw_intervals(
    axes: Axes, lengths: Sequence[int], intervals: Sequence[Interval], variant: Variant, marker: str
) -> None:
    """A line through the medians in milliseconds, bars over the intervals, hollow markers for noise."""
    in_ms = [Interval(*(seconds * 1e3 for seconds in interval)) for interval in intervals]
    ends = [each.median - each.low for each in in_ms], [each.high - each.median for each in in_ms]
    medians = [each.median for each in in_ms]
    colour = _COLOURS[variant]
    axes.errorbar(lengths, medians, ends, color=colour, lw=1.4, capsize=3)
    fills = [colour if each.above_noise else "white" for each in in_ms]
    axes.scatter(lengths, medians, marker=marker, s=36, c=fills, edgecolors=colour, zorder=3)
