"""Compares the demo's runs: do the losses agree, how long do steps take; as text tables and as a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from xla_shmem.compare.side_by_side import LOSS_TOLERANCE, Runs, disagreement
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_run import Variant
from xla_shmem.train.report import describe
from xla_shmem.train.step_times import MEASURED, measured_seconds, step_times


def speed_ups(runs: Runs) -> list[float]:
    """Median stock step time over median SHMEM step time, for each repeat by itself."""
    return [
        statistics.median(measured_seconds(stock)) / statistics.median(measured_seconds(shmem))
        for shmem, stock in zip(runs[Variant.SHMEM], runs[Variant.STOCK], strict=True)
    ]


def loss_table(runs: Runs, differences: Sequence[float]) -> Table:
    """Losses of the first repeat at some steps, first and last included."""
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
    """Step times of both transports, in milliseconds."""
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
    """The speed-up of the pooled medians, with its range where there are several repeats."""
    ratio = step_times(runs[Variant.STOCK]).median / step_times(runs[Variant.SHMEM]).median
    single = speed_ups(runs)
    spread = (
        f" ({min(single):.2f}x to {max(single):.2f}x in {len(single)} alternating rounds)"
        if len(single) > 1
        else " (one run each; against noise, --rounds alternates several)"
    )
    return f"Speed-up of the median step: {ratio:.2f}x{spread}."


def save_picture(path: Path, config: TrainConfig, runs: Runs, differences: Sequence[float]) -> None:
    """Saves a PNG: both loss curves, their difference, and the step times."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    colours = {Variant.SHMEM: "#0b6e4f", Variant.STOCK: "#e07a1f"}
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"SHMEM and stock collectives, same training job\n{describe(config)}", fontsize=11)
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 1), width_ratios=(1, 1))
    losses = figure.add_subplot(grid[0, 0])
    gaps = figure.add_subplot(grid[1, 0], sharex=losses)
    times = figure.add_subplot(grid[:, 1])

    steps = range(config.steps)
    for variant, width, alpha in ((Variant.STOCK, 5.0, 0.45), (Variant.SHMEM, 1.6, 1.0)):
        curve = [record.loss for record in runs[variant][0]]
        losses.plot(steps, curve, color=colours[variant], lw=width, alpha=alpha, label=variant.value)
    losses.set_ylabel("loss (nats per byte)")
    losses.set_title("Loss: the curves lie on each other", fontsize=10, loc="left")
    if disagreement(differences):
        losses.set_title("Loss: THE CURVES DISAGREE", fontsize=10, loc="left", color="crimson")
    losses.legend(frameon=False)
    losses.tick_params(labelbottom=False)

    floor = 1e-9  # equal losses have no place on a logarithmic axis
    gaps.plot(steps, [max(floor, each) for each in differences], ".", color="0.3", ms=5)
    gaps.axhline(LOSS_TOLERANCE, color="crimson", lw=1, ls="--")
    gaps.text(config.steps - 1, LOSS_TOLERANCE * 0.6, "tolerance", color="crimson", fontsize=8, ha="right", va="top")
    gaps.set_yscale("log")
    gaps.set_ylim(floor / 3, max([LOSS_TOLERANCE * 10, *(each * 3 for each in differences if math.isfinite(each))]))
    gaps.set_yticks([1e-9, 1e-7, 1e-5, 1e-3], ["equal", "1e-7", "1e-5", "1e-3"])
    gaps.set_ylabel("relative\ndifference")
    gaps.set_xlabel("step")

    first, last = MEASURED
    times.axvspan(first - 0.5, min(last, config.steps - 1) + 0.5, color="0.94", zorder=0)
    for variant in (Variant.STOCK, Variant.SHMEM):
        summary = step_times(runs[variant])
        label = f"{variant.value}: median {summary.median * 1e3:.0f} ms"
        for run in runs[variant]:
            seconds = [record.seconds * 1e3 for record in run[1:]]
            times.plot(range(1, len(run)), seconds, "o", ms=4, alpha=0.75, mew=0, color=colours[variant])
        times.hlines(
            summary.median * 1e3,
            first - 0.5,
            min(last, config.steps - 1) + 0.5,
            colours[variant],
            lw=2,
            label=label,
        )
    shown = [record.seconds * 1e3 for repeats in runs.values() for run in repeats for record in run[1:]]
    times.set_ylim(0, max(shown) * 1.25)  # room for the legend
    times.set_title(speed_up_sentence(runs).split(" (")[0].rstrip("."), fontsize=10, loc="left")
    times.set_ylabel("step time (ms)")
    times.set_xlabel(f"step (step 0 compiles and is not shown; grey: measured steps {first}-{last})")
    times.legend(frameon=False, loc="upper right")
    for axes in (losses, gaps, times):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
