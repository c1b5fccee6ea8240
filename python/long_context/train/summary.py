"""The summary of a training job: averages over the measured steps, and a picture."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from long_context.models.llama_config import parameter_count
from long_context.train.config import TrainConfig
from long_context.train.step_log import StepRecord
from long_context.train.step_times import MEASURED, Means, means, measured_records


def describe(config: TrainConfig) -> str:
    """The job in one line."""
    model = config.model()
    kind = "fp8" if config.fp8 else config.dtype
    return (
        f"{config.preset}, {parameter_count(model) / 1e6:,.3g}M parameters, {kind}, {config.batch} x {config.sequence} "
        f"tokens per step on {config.mesh()}"
    )


def summary(config: TrainConfig, records: Sequence[StepRecord]) -> list[str]:
    """The averages of the measured steps, as sentences."""
    measured = measured_records(records)
    first, last = MEASURED
    begin, end = records[0], records[-1]
    lines = [f"Loss {begin.loss:.4f} at step {begin.step}, {end.loss:.4f} at step {end.step}."]
    validated = [record for record in records if record.validation_loss is not None]
    if validated:
        lines.append(f"Validation loss {validated[-1].validation_loss:.4f} after step {validated[-1].step}.")
    if not measured:
        return [*lines, f"No averages: they need steps {first} to {last}, and the job had {config.steps} steps."]
    found = means([records])
    return [
        *lines,
        f"Steps {measured[0].step} to {measured[-1].step} ({len(measured)}) on rank 0, mean (median): "
        f"{found.step_s * 1e3:.1f} ({found.median_step_s * 1e3:.1f}) ms per step, "
        f"{found.tflops_per_device:.4g} ({found.median_tflops_per_device:.4g}) TFLOP/s per device; "
        f"{measured[0].tokens / found.step_s:,.0f} tokens/s.",
    ]


def as_json(config: TrainConfig, records: Sequence[StepRecord]) -> str:
    """The job, the measured steps and their `Means` (null without such a step) as JSON."""
    measured = measured_records(records)
    found = means([records])._asdict() if measured else dict.fromkeys(Means._fields)
    entries = {"job": dataclasses.asdict(config), "steps": [record.step for record in measured], **found}
    return json.dumps(entries, indent=1)


def save_summary(path: Path, config: TrainConfig, records: Sequence[StepRecord]) -> None:
    """Saves what `as_json` returns."""
    path.write_text(as_json(config, records) + "\n")


def without_pictures() -> str:
    """Why there are no pictures; "" if there are."""
    if importlib.util.find_spec("matplotlib"):
        return ""
    return "no picture (it needs matplotlib: pip install 'long-context[plot]')"


def save_picture(path: Path, config: TrainConfig, records: Sequence[StepRecord]) -> None:
    """Saves a PNG: loss and throughput over steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(describe(config), fontsize=11)
    losses, throughput = figure.subplots(1, 2)
    losses.plot([record.step for record in records], [record.loss for record in records], color="#0b6e4f", lw=1.6)
    validated = [(record.step, record.validation_loss) for record in records if record.validation_loss is not None]
    if validated:
        losses.plot(*zip(*validated, strict=True), "o-", color="#e07a1f", label="validation")
        losses.legend(frameon=False)
    losses.set_title("Loss", fontsize=10, loc="left")
    losses.set_ylabel("nats per token")

    running = [record for record in records if not record.compiled]
    throughput.plot(
        [record.step for record in running],
        [record.tokens_per_second for record in running],
        "o" if len(running) <= 100 else ".",
        ms=4 if len(running) <= 100 else 2,
        color="#3c6fb4",
    )
    measured = measured_records(records)
    if measured:
        first, last = measured[0].step, measured[-1].step
        seconds = statistics.mean(record.seconds for record in measured)
        throughput.axvspan(first - 0.5, last + 0.5, color="0.94", zorder=0)
        throughput.hlines(measured[0].tokens / seconds, first - 0.5, last + 0.5, "#e07a1f", lw=2)
    throughput.set_ylim(bottom=0)
    throughput.set_title("Throughput; orange: average over the measured steps", fontsize=10, loc="left")
    throughput.set_ylabel("tokens/s")
    for axes in (losses, throughput):
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
