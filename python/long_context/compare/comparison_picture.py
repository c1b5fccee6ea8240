"""The picture of a comparison: of several jobs the speed-up over length, of one its losses and step times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from long_context.compare.rows import BACKENDS, Row
from long_context.compare.side_by_side import LOSS_TOLERANCE
from long_context.train.step_times import MEASURED
from xla_shmem.backends import PLUGIN, STOCK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {PLUGIN: "#0b6e4f", STOCK: "#e07a1f"}
_MARKERS = "os^Dv*"


def save_picture(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Saves a PNG of the rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    if len(rows) == 1:
        _draw_job(figure, rows[0])
    else:
        _draw_speed_ups(figure.subplots(), rows)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _draw_speed_ups(axes: Axes, rows: Sequence[Row]) -> None:
    meshes: dict[tuple[int, int], list[Row]] = {}  # by the degrees of context and tensor parallelism
    for row in sorted(rows, key=lambda row: row.config.sequence):
        meshes.setdefault((row.config.context, row.config.tensor), []).append(row)
    for number, ((context, tensor), line) in enumerate(meshes.items()):
        lengths = [row.config.sequence for row in line]
        marker, label = _MARKERS[number % len(_MARKERS)], f"CP {context}, TP {tensor}"
        axes.plot(lengths, [row.speed_up for row in line], marker=marker, color=_COLOURS[PLUGIN], lw=1.4, label=label)
    axes.axhline(1.0, color="0.6", lw=1, ls="--")
    axes.set_title(f"Speed-up of the median step, {PLUGIN.name} over {STOCK.name}", fontsize=10, loc="left")
    axes.set_ylim(bottom=0)
    axes.set_xscale("log", base=2)
    lengths = sorted({row.config.sequence for row in rows})
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("tokens in a sequence")
    axes.legend(frameon=False, fontsize=8)


def _draw_job(figure: Figure, row: Row) -> None:
    from matplotlib.ticker import MaxNLocator

    grid = figure.add_gridspec(2, 2, height_ratios=(3, 1), width_ratios=(1, 1))
    losses = figure.add_subplot(grid[0, 0])
    gaps = figure.add_subplot(grid[1, 0], sharex=losses)
    times = figure.add_subplot(grid[:, 1])
    _draw_losses(losses, row)
    _draw_differences(gaps, row.loss_differences())
    _draw_times(times, row)
    for axes in figure.axes:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_losses(axes: Axes, row: Row) -> None:
    for backend, width, alpha in ((STOCK, 5.0, 0.45), (PLUGIN, 1.6, 1.0)):
        curve = [record.loss for record in row.runs[backend][0]]
        axes.plot(range(len(curve)), curve, color=_COLOURS[backend], lw=width, alpha=alpha, label=backend.name)
    axes.set_ylabel("loss (nats per token)")
    agree = row.problem() is None
    title, colour = ("Loss: the curves coincide", "black") if agree else ("Loss: THE CURVES DISAGREE", "crimson")
    axes.set_title(title, fontsize=10, loc="left", color=colour)
    axes.legend(frameon=False)
    axes.tick_params(labelbottom=False)


def _draw_differences(axes: Axes, differences: Sequence[float]) -> None:
    last = len(differences) - 1
    floor = 1e-9  # a logarithmic axis cannot show 0
    axes.plot(range(last + 1), [max(floor, each) for each in differences], ".", color="0.3", ms=5)
    axes.axhline(LOSS_TOLERANCE, color="crimson", lw=1, ls="--")
    axes.text(last, LOSS_TOLERANCE * 0.6, "tolerance", color="crimson", fontsize=8, ha="right", va="top")
    axes.set_yscale("log")
    axes.set_ylim(floor / 3, max([LOSS_TOLERANCE * 10, *(each * 3 for each in differences if math.isfinite(each))]))
    axes.set_yticks([1e-9, 1e-7, 1e-5, 1e-3], ["equal", "1e-7", "1e-5", "1e-3"])
    axes.set_ylabel("relative\ndifference")
    axes.set_xlabel("step")


def _draw_times(axes: Axes, row: Row) -> None:
    first, last = MEASURED
    left, right = first - 0.5, min(last, row.config.steps - 1) + 0.5
    axes.axvspan(left, right, color="0.94", zorder=0)
    for backend in BACKENDS:
        median = row.times(backend).median * 1e3
        for run in row.runs[backend]:
            seconds = [record.seconds * 1e3 for record in run[1:]]
            axes.plot(range(1, len(run)), seconds, "o", ms=4, alpha=0.75, mew=0, color=_COLOURS[backend])
        axes.hlines(median, left, right, _COLOURS[backend], lw=2, label=f"{backend.name}: median {median:.0f} ms")
    shown = [record.seconds * 1e3 for rounds in row.runs.values() for run in rounds for record in run[1:]]
    axes.set_ylim(0, max(shown) * 1.25)  # keeps the top free for the legend
    axes.set_title(f"Speed-up of the median step: {row.speed_up:.2f}x", fontsize=10, loc="left")
    axes.set_ylabel("step time (ms)")
    axes.set_xlabel(f"step (step 0 compiles and is not shown; grey: measured steps {first}-{last})")
    axes.legend(frameon=False, loc="upper right")
