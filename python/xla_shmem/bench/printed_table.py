"""The table, as in nccl-tests: a line as soon as it is measured, and `#` before lines without data."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from xla_shmem.bench.plan import Plan
from xla_shmem.bench.results import Row, Times
from xla_shmem.bench.text_columns import TextColumns, columns_for
from xla_shmem.gpu.chosen_gpus import Gpus

_COLUMNS = {
    "op": 20,
    "size": 10,
    "count": 10,
    "type": 5,
    "redop": 5,
    "group": 5,
    "variant": 11,
    "p50": 10,
    "p99": 10,
    "algbw": 7,
    "busbw": 7,
    "#wrong": 7,
    "speed-up": 8,
    "limit": 9,
    "call": 6,
}
#: What 80 columns hold; the heading names the rest.
_NARROW = {"op": 17, "size": 10, "variant": 11, "p50": 10, "busbw": 7, "#wrong": 7, "speed-up": 8}

_UNITS = {"size": "(B)", "count": "(elem)", "p50": "(us)", "p99": "(us)", "algbw": "(GB/s)", "busbw": "(GB/s)"}
_UNITS |= {"group": "(PEs)", "speed-up": "of SHMEM", "limit": "(%)", "call": "(us)"}


_LIMITS = (
    "limit: percent of the memcpy limit that is reached, single-copy / through slots",
    "call: time of an FFI call that does nothing",
)


def _gpu_lines(gpus: Gpus) -> list[str]:
    return [str(gpus), *(["the GPUs are emulated, without hardware: times mean nothing"] if gpus.emulated else [])]


def columns(stream: TextIO, variants: Iterable[str]) -> TextColumns:
    """Returns the columns for a stream; the column of the variants holds the longest of their names."""
    variant = {"variant": max(_COLUMNS["variant"], *map(len, variants), 0)}
    return columns_for(stream, TextColumns(_COLUMNS | variant), TextColumns(_NARROW | variant))


def heading(plan: Plan, machine: Mapping[str, Any], notes: Iterable[str], form: TextColumns) -> list[str]:
    """Returns the lines above the first row."""
    iterations = plan.iterations or f"as many as take {plan.program_ms:.0f} ms"
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load {machine['load'][0]:.1f}; "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items()),
        *(_gpu_lines(plan.gpus) if plan.gpus else ()),
        f"{plan}; {plan.rounds} rounds in turns, warm-up {plan.warmup}, collectives per program: {iterations}",
        "times are per collective: the mean of a program at its slowest rank",
        "speed-up: median divided by SHMEM's median",
        *(() if plan.gpus or plan.launcher else _LIMITS),
        *notes,
    ]
    return [*(f"# {line}" for line in lines), "#", form.heading(), form.heading(_UNITS)]


def row_lines(row: Row, printed: set[str], form: TextColumns) -> list[str]:
    """Returns a line for each variant that ran, and a remark for each other variant.

    Args:
      row: the measurements.
      printed: remarks of earlier rows, which are left out. New ones are added.
      form: as `columns` returns it.
    """
    lines = []
    for variant, times in row.times.items():
        if times.us:
            lines.append(_variant_line(row, variant, times, form))
            continue
        remark = f"# {variant} cannot run {row.cell.op}: {times.reason}"
        if remark not in printed:
            lines.append(remark)
        printed.add(remark)
    return lines


def _variant_line(row: Row, variant: str, times: Times, form: TextColumns) -> str:
    cell = row.cell
    speed_up = None if variant == "shmem" else row.speed_up(variant)
    limits = row.memcpy_limits_us()
    return form.line(
        {
            "op": cell.op,
            "size": str(cell.bytes),
            "count": str(cell.count),
            "type": cell.dtype,
            "redop": cell.reduction or "none",
            "group": str(cell.group),
            "variant": variant,
            "p50": f"{times.median:.2f}",
            "p99": f"{times.quantile(0.99):.2f}",
            "algbw": f"{row.algorithm_bandwidth(variant):.3f}",
            "busbw": f"{row.bus_bandwidth(variant):.3f}",
            "#wrong": "N/A" if times.wrong is None else str(times.wrong),
            "speed-up": "" if speed_up is None else f"{speed_up:.2f}x",
            "limit": "" if limits is None else "/".join(f"{100 * limit / times.median:.0f}" for limit in limits),
            "call": f"{statistics.median(row.empty_call_us):.2f}" if row.empty_call_us and variant == "shmem" else "",
        }
    )
