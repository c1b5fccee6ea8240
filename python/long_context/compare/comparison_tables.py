"""The tables of a comparison, one of them with the columns of Table 2 in NVIDIA's post."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from long_context.compare.rows import BACKENDS, Row
from long_context.train.step_times import MEASURED
from xla_shmem.console import report_table

_NAMES = tuple(backend.name for backend in BACKENDS)
_TIMES = tuple(f"{name} ms" for name in _NAMES)
_JOB = ("tokens", "CP", "TP", "PEs")


def table(rows: Sequence[Row]) -> Table:
    """One line per job: throughput, speed-up and its range over the rounds, step times, difference of losses."""
    first, last = MEASURED
    result = _empty_table(
        f"Medians of steps {first}-{last}; TFLOP/s of each device",
        (*_JOB, *_NAMES, "speed-up", "of rounds", *_TIMES, "losses differ"),
    )
    for row in rows:
        single = row.speed_ups
        result.add_row(
            *_job(row),
            *(f"{row.means(backend).median_tflops_per_device:.3g}" for backend in BACKENDS),
            f"{row.speed_up:.2f}x",
            f"{min(single):.2f}-{max(single):.2f}" if len(single) > 1 else "",
            *(f"{row.times(backend).median * 1e3:.1f}" for backend in BACKENDS),
            f"{max(row.loss_differences()):.0e}",
        )
    return result


def means_table(rows: Sequence[Row]) -> Table:
    """One line per job with the columns of Table 2 in NVIDIA's post, from the same steps."""
    first, last = MEASURED
    result = _empty_table(
        f"As in NVIDIA's post: means of steps {first}-{last} on rank 0; TFLOP/s of each device",
        (*_JOB, "tokens of each", *_NAMES, "gain", *_TIMES),
    )
    for row in rows:
        found = [row.means(backend) for backend in BACKENDS]
        result.add_row(
            *_job(row),
            f"{row.config.sequence // row.config.context:,}",
            *(f"{each.tflops_per_device:.3g}" for each in found),
            f"{row.gain:+.1%}",
            *(f"{each.step_s * 1e3:.1f}" for each in found),
        )
    return result


def loss_table(row: Row) -> Table:
    """Losses of the first round at about eight steps, including the first and the last."""
    stock, moved = (row.runs[backend][0] for backend in BACKENDS)
    result = _empty_table("Loss (nats per token)", ("step", *_NAMES, "relative difference"))
    differences = row.loss_differences()
    stride = max(1, math.ceil(len(moved) / 8))
    for step in sorted({*range(0, len(moved), stride), len(moved) - 1}):
        result.add_row(str(step), f"{stock[step].loss:.6f}", f"{moved[step].loss:.6f}", f"{differences[step]:.1e}")
    return result


def _job(row: Row) -> tuple[str, ...]:
    config = row.config
    return (f"{config.sequence:,}", *map(str, (config.context, config.tensor, config.devices)))


def _empty_table(title: str, columns: Sequence[str]) -> Table:
    result = report_table()
    result.title, result.title_justify, result.padding = title, "left", 0
    for column in columns:
        result.add_column(column, justify="right")
    return result
