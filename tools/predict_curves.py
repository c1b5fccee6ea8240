"""Draws the predicted gain of NVSHMEM over context parallelism, length, size of the NVLink domain, and GPUs.

    python tools/predict_curves.py docs/pictures

All points are sketches (`xla_shmem/predict/sketch.py`) of Llama 3 8B as in docs/table2.md.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiled_rows import CLUSTER
from xla_shmem.predict.cluster import Cluster, read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.forecast import Forecast, forecast
from xla_shmem.predict.long_context_job import long_context_job
from xla_shmem.predict.sketch import sketch
from xla_shmem.predict.walk import Machine
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.throughput import step_flops

_COLOURS = ("#0b6e4f", "#e07a1f", "#3c6fb4", "#8a3b8f")
_K = 1 << 10

#: For each line, by label: its points, an x value and the prediction.
Lines = Mapping[str, Sequence[tuple[int, Forecast]]]


def predict(job: TrainConfig, cluster: Cluster) -> Forecast:
    """The prediction for a sketched job."""
    flops = step_flops(job.model(), job.batch, job.sequence)
    return forecast("", sketch(job, cluster), Machine(cluster, read_constants()), flops)


def over_context() -> Lines:
    """Gain over CP, one line per length; TP 1, one GB200 NVL72."""
    cluster = read_cluster(CLUSTER)
    return {
        f"{length // _K}K tokens": [
            (cp, predict(long_context_job(length, cp, 1), cluster)) for cp in (2, 4, 8, 16, 32, 64)
        ]
        for length in (64 * _K, 128 * _K, 256 * _K, 1024 * _K)
    }


def over_sequence() -> Lines:
    """Gain over length, one line per mesh of 16 or 64 GPUs of one GB200 NVL72."""
    cluster = read_cluster(CLUSTER)
    return {
        f"CP {cp}, TP {tp}": [
            (length * _K, predict(long_context_job(length * _K, cp, tp), cluster)) for length in lengths
        ]
        for cp, tp, lengths in (
            (16, 1, (32, 64, 128, 256, 512, 1024)),
            (8, 2, (32, 64, 128, 256, 512, 1024)),
            (64, 1, (64, 128, 256, 512, 1024, 2048)),
            (32, 2, (64, 128, 256, 512, 1024, 2048)),
        )
    }


def over_domain() -> Lines:
    """Gain over the size of NVLink domains, one line per length; 1,024 GPUs, CP 32, TP 2, data 16."""
    cluster = read_cluster(CLUSTER)
    return {
        f"{length // _K}K tokens": [
            (size, predict(_replicated(length, 32, 2, 1024), dataclasses.replace(cluster, gpus_per_nvlink_domain=size)))
            for size in (8, 16, 32, 64, 128, 256, 512, 1024)
        ]
        for length in (256 * _K, 512 * _K, 1024 * _K)
    }


def over_gpus() -> Lines:
    """Gain over the number of GPUs in domains of 64, one line per length; CP 32, TP 2, the rest data."""
    cluster = dataclasses.replace(read_cluster(CLUSTER), gpus_per_nvlink_domain=64)
    return {
        f"{length // _K}K tokens": [
            (gpus, predict(_replicated(length, 32, 2, gpus), cluster)) for gpus in (64, 128, 256, 512, 1024, 2048, 4096)
        ]
        for length in (256 * _K, 512 * _K, 1024 * _K)
    }


def _replicated(sequence: int, context: int, tensor: int, gpus: int) -> TrainConfig:
    replicas = gpus // (context * tensor)
    return dataclasses.replace(long_context_job(sequence, context, tensor), data=replicas, batch=replicas)


#: File name, label of the x axis, title, and the points.
PICTURES: Sequence[tuple[str, str, str, Callable[[], Lines]]] = (
    ("predict-context", "context parallelism (GPUs)", "One GB200 NVL72, TP 1", over_context),
    ("predict-sequence", "tokens", "One GB200 NVL72, 16 and 64 GPUs", over_sequence),
    ("predict-domain", "GPUs of an NVLink domain", "1,024 GPUs, CP 32, TP 2, data 16", over_domain),
    ("predict-gpus", "GPUs", "NVLink domains of 64 GPUs, CP 32, TP 2, the rest data", over_gpus),
)


def save_picture(path: Path, over: str, title: str, lines: Lines) -> None:
    """Saves a PNG: gain on the left, TFLOP/s per GPU on the right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(f"Llama 3 8B, BF16, one sequence per replica. {title}. Predicted from sketches.", fontsize=10)
    gain, speed = figure.subplots(1, 2)
    for colour, (label, points) in zip(_COLOURS, lines.items(), strict=False):
        x = [point for point, _ in points]
        gain.plot(x, [each.gain * 100 for _, each in points], "o-", ms=4, color=colour, label=label)
        speed.plot(x, [each.tflops("NVSHMEM") for _, each in points], "o-", ms=4, color=colour, label=label)
        speed.plot(x, [each.tflops("DEFAULT") for _, each in points], "o--", ms=3, lw=1, color=colour)
    gain.set_title("NVSHMEM faster than NCCL by", fontsize=10, loc="left")
    gain.set_ylabel("%")
    gain.set_yscale("symlog", linthresh=10)
    gain.set_yticks([0, 5, 10, 30, 100], ["0", "5", "10", "30", "100"])
    gain.set_ylim(-0.5, 1.5 * max(10.0, *(100 * each.gain for points in lines.values() for _, each in points)))
    speed.set_title("TFLOP/s per GPU: NVSHMEM (solid), NCCL (dashed)", fontsize=10, loc="left")
    speed.set_ylim(bottom=0)
    ticks = sorted({point for points in lines.values() for point, _ in points})
    for axes in (gain, speed):
        _finish(axes, over, ticks)
    gain.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def _finish(axes: Any, over: str, ticks: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick // _K}K" if tick >= 16 * _K else f"{tick:,}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel(over)
    axes.grid(color="0.9", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def main(folder: Path) -> None:
    """Saves all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, over, title, points in PICTURES:
        save_picture(folder / f"{name}.png", over, title, points())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
