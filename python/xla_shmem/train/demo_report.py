"""Compares the demo's runs: do the losses agree, how long do steps take; as text tables and as a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_run import Transport
from xla_shmem.train.step_log import StepRecord
from xla_shmem.train.step_times import MEASURED, measured_seconds, step_times
from xla_shmem.train.train_report import describe

#: Largest accepted |SHMEM - stock| / |stock| of a step's loss. The two transports add the ranks' f32
#: gradients in different orders, so a sum may differ by some ranks x 2^-23 (1.2e-7), and every later step
#: starts from the difference.
LOSS_TOLERANCE = 1e-4

Runs = Mapping[Transport, Sequence[Sequence[StepRecord]]]  # per transport, per repeat, per step


def speed_ups(runs: Runs) -> list[float]:
    """Median stock step time over median SHMEM step time, for each repeat by itself."""
    return [
        statistics.median(measured_seconds(stock)) / statistics.median(measured_seconds(shmem))
        for shmem, stock in zip(runs[Transport.SHMEM], runs[Transport.STOCK], strict=True)
    ]


def loss_differences(runs: Runs) -> list[float]:
    """|SHMEM - stock| / |stock| of each step's loss, the largest of the repeats; NaN if one is not finite."""
    per_repeat = [
        [_relative_difference(a.loss, b.loss) for a, b in zip(shmem, stock, strict=True)]
        for shmem, stock in zip(runs[Transport.SHMEM], runs[Transport.STOCK], strict=True)
    ]
    per_step = zip(*per_repeat, strict=True)
    return [math.nan if any(map(math.isnan, values)) else max(values) for values in per_step]


def _relative_difference(a: float, b: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.nan
    return abs(a - b) / abs(b) if a != b else 0.0


def disagreement(differences: Sequence[float]) -> str | None:
    """A sentence that says where the losses disagree, or None if they agree to `LOSS_TOLERANCE`."""
    for step, difference in enumerate(differences):
        if math.isnan(difference):
            return f"The loss of step {step} is not a finite number."
        if difference > LOSS_TOLERANCE:
            return (
                f"The losses of step {step} differ by {difference:.1e} of their value, more than the "
                f"{LOSS_TOLERANCE:.0e} that rounding explains."
            )
    return None


def loss_table(runs: Runs, differences: Sequence[float]) -> Table:
    """Losses of the first repeat at some steps, first and last included."""
    shmem, stock = runs[Transport.SHMEM][0], runs[Transport.STOCK][0]
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
    count = step_times(runs[Transport.STOCK]).count
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title=f"Step time (ms), steps {first}-{last}, {count} in all",
        title_justify="left",
    )
    table.add_column("run")
    for column in ("median", "quartiles", "shortest", "longest", "tokens/s", "first step (s)"):
        table.add_column(column, justify="right")
    for transport in Transport:
        times = step_times(runs[transport])
        first_steps = statistics.median(run[0].seconds for run in runs[transport])
        table.add_row(
            transport.value,
            f"{times.median * 1e3:.1f}",
            f"{times.lower_quartile * 1e3:.1f}-{times.upper_quartile * 1e3:.1f}",
            f"{times.shortest * 1e3:.1f}",
            f"{times.longest * 1e3:.1f}",
            f"{runs[transport][0][0].tokens / times.median:,.0f}",
            f"{first_steps:.1f}",
        )
    return table


def speed_up_sentence(runs: Runs) -> str:
    """The speed-up of the pooled medians, with its range where there are several repeats."""
    ratio = step_times(runs[Transport.STOCK]).median / step_times(runs[Transport.SHMEM]).median
    single = speed_ups(runs)
    spread = (
        f" ({min(single):.2f}x to {max(single):.2f}x in {len(single)} alternating repeats)"
        if len(single) > 1
        else " (one run each; against noise, --repeats alternates several)"
    )
    return f"Speed-up of the median step: {ratio:.2f}x{spread}."


def save_picture(path: Path, config: TrainConfig, runs: Runs, differences: Sequence[float]) -> None:
    """Saves a PNG: both loss curves, their difference, and the step times."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = {Transport.SHMEM: "#0b6e4f", Transport.STOCK: "#e07a1f"}
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"SHMEM and stock collectives, same training job\n{describe(config)}", fontsize=11)
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 1), width_ratios=(1, 1))
    losses = figure.add_subplot(grid[0, 0])
    gaps = figure.add_subplot(grid[1, 0], sharex=losses)
    times = figure.add_subplot(grid[:, 1])

    steps = range(config.steps)
    for transport, width, alpha in ((Transport.STOCK, 5.0, 0.45), (Transport.SHMEM, 1.6, 1.0)):
        curve = [record.loss for record in runs[transport][0]]
        losses.plot(steps, curve, color=colours[transport], lw=width, alpha=alpha, label=transport.value)
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
    for transport in (Transport.STOCK, Transport.SHMEM):
        summary = step_times(runs[transport])
        label = f"{transport.value}: median {summary.median * 1e3:.0f} ms"
        for run in runs[transport]:
            seconds = [record.seconds * 1e3 for record in run[1:]]
            times.plot(range(1, len(run)), seconds, "o", ms=4, alpha=0.75, mew=0, color=colours[transport])
        times.hlines(
            summary.median * 1e3,
            first - 0.5,
            min(last, config.steps - 1) + 0.5,
            colours[transport],
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
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
