"""Compares the demo's runs as text tables and as a picture: whether the losses agree, and how long steps take."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from long_context.compare.side_by_side import LOSS_TOLERANCE, Runs, disagreement
from long_context.compare.variants import Variant
from long_context.train.config import TrainConfig
from long_context.train.step_times import MEASURED, measured_seconds, step_times
from long_context.train.summary import describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {Variant.SHMEM: "#0b6e4f", Variant.STOCK: "#e07a1f"}


def speed_ups(runs: Runs) -> list[float]:
    """Median stock step time over median SHMEM step time, for each round."""
    return [
        statistics.median(measured_seconds(stock)) / statistics.median(measured_seconds(shmem))
        for shmem, stock in zip(runs[Variant.SHMEM], runs[Variant.STOCK], strict=True)
    ]


def loss_table(runs: Runs, differences: Sequence[float]) -> Table:
    """Losses of the first round at about eight steps, including the first and the last."""
    shmem, stock = runs[Variant.SHMEM][0], runs[Variant.STOCK][0]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Loss (nats per byte)", title_justify="left")
    for column in ("step", "SHMEM", "stock", "relative difference"):
        table.add_column(column, justify="right")
    stride = max(1, math.ceil(len(shmem) / 8))
    shown = sorted({*range(0, len(shmem), stride), len(shmem) - 1})
    for step in shown:
        table.add_row(str(step), f"{shmem[step].loss:.6f}", f"{stock[step].loss:.6f}", f"{differences[step]:.1e}")
    return table


def time_table(runs: Runs) -> Table:
    """Step times on both transports, in milliseconds."""
    first, last = MEASURED
    count = step_times(runs[Variant.STOCK]).count
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"Step time (ms), steps {first}-{last}, {count} in all",
        title_justify="left",
    )
    table.add_column("run")
    for column in ("median", "quartiles", "shortest", "longest", "tokens/s", "first step (s)"):
        table.add_column(column, justify="right")
    for variant in (Variant.SHMEM, Variant.STOCK):
        times = step_times(runs[variant])
        first_steps = statistics.median(run[0].seconds for run in runs[variant])
        table.add_row(
            variant.value,
            f"{times.median * 1e3:.1f}",
            f"{times.lower_quartile * 1e3:.1f}-{times.upper_quartile * 1e3:.1f}",
            f"{times.shortest * 1e3:.1f}",
            f"{times.longest * 1e3:.1f}",
            f"{runs[variant][0][0].tokens / times.median:,.0f}",
            f"{first_steps:.1f}",
        )
    return table


def speed_up_sentence(runs: Runs) -> str:
    """The speed-up of the medians over all rounds, with its range if there are several rounds."""
    single = speed_ups(runs)
    spread = (
        f" ({min(single):.2f}x to {max(single):.2f}x in {len(single)} alternating rounds)"
        if len(single) > 1
        else " (one run each; --rounds alternates several runs and shows the spread)"
    )
    return f"Speed-up of the median step: {_speed_up(runs):.2f}x{spread}."


def _speed_up(runs: Runs) -> float:
    return step_times(runs[Variant.STOCK]).median / step_times(runs[Variant.SHMEM]).median


def save_picture(path: Path, config: TrainConfig, runs: Runs, differences: Sequence[float]) -> None:
    """Saves a PNG: both loss curves, their difference, and the step times."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"SHMEM and stock collectives, same training job\n{describe(config)}", fontsize=11)
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 1), width_ratios=(1, 1))
    losses = figure.add_subplot(grid[0, 0])
    gaps = figure.add_subplot(grid[1, 0], sharex=losses)
    times = figure.add_subplot(grid[:, 1])
    _draw_losses(losses, runs, agree=disagreement(differences) is None)
    _draw_differences(gaps, differences)
    _draw_times(times, config.steps, runs)
    for axes in (losses, gaps, times):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def _draw_losses(axes: Axes, runs: Runs, agree: bool) -> None:
    for variant, width, alpha in ((Variant.STOCK, 5.0, 0.45), (Variant.SHMEM, 1.6, 1.0)):
        curve = [record.loss for record in runs[variant][0]]
        axes.plot(range(len(curve)), curve, color=_COLOURS[variant], lw=width, alpha=alpha, label=variant.value)
    axes.set_ylabel("loss (nats per byte)")
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


def _draw_times(axes: Axes, steps: int, runs: Runs) -> None:
    first, last = MEASURED
    left, right = first - 0.5, min(last, steps - 1) + 0.5
    axes.axvspan(left, right, color="0.94", zorder=0)
    for variant in (Variant.STOCK, Variant.SHMEM):
        median = step_times(runs[variant]).median * 1e3
        for run in runs[variant]:
            seconds = [record.seconds * 1e3 for record in run[1:]]
            axes.plot(range(1, len(run)), seconds, "o", ms=4, alpha=0.75, mew=0, color=_COLOURS[variant])
        axes.hlines(median, left, right, _COLOURS[variant], lw=2, label=f"{variant.value}: median {median:.0f} ms")
    shown = [record.seconds * 1e3 for rounds in runs.values() for run in rounds for record in run[1:]]
    axes.set_ylim(0, max(shown) * 1.25)  # keeps the top free for the legend
    axes.set_title(f"Speed-up of the median step: {_speed_up(runs):.2f}x", fontsize=10, loc="left")
    axes.set_ylabel("step time (ms)")
    axes.set_xlabel(f"step (step 0 compiles and is not shown; grey: measured steps {first}-{last})")
    axes.legend(frameon=False, loc="upper right")
