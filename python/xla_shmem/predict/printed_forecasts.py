"""Prints predictions as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from xla_shmem.console import report_console, report_table
from xla_shmem.predict.forecast import BACKENDS, Forecast
from xla_shmem.predict.program import Backend
from xla_shmem.predict.walk import Machine

_COLUMNS = ("backend", "step", "compute", "slowed by SMs", "exposed", "transfers", "TFLOP/s per device")


def print_json(forecasts: Sequence[Forecast], machine: Machine) -> None:
    """Prints a JSON list with one object per program; times are in seconds."""
    click.echo(json.dumps([_object(each, machine) for each in forecasts], indent=2))


def print_tables(forecasts: Sequence[Forecast], machine: Machine) -> None:
    """Prints for each program a table with one line per backend, and the gain."""
    console = report_console()
    precision = "FP8" if machine.fp8 else "BF16"
    attention = "one fused kernel" if machine.fused_attention else "as compiled"
    console.print(f"{machine.cluster.name}, {precision}, attention {attention}. Predicted, not measured.")
    for each in forecasts:
        divided = f", {each.divided} divided" if each.divided else ""
        on = f"{each.on_nvshmem} of {each.collectives} collectives on NVSHMEM{divided}"
        console.print(f"\n{each.title}: {each.devices} GPUs, {on}")
        table = report_table()
        for column in _COLUMNS:
            table.add_column(column, justify="left" if column == "backend" else "right", no_wrap=True)
        for backend in BACKENDS:
            table.add_row(*_cells(each, backend))
        console.print(table)
        console.print(f"NVSHMEM is {abs(each.gain) * 100:.1f} % {'faster' if each.gain >= 0 else 'slower'}.")
        if each.unknown:
            console.print(
                f"XLA does not know the FLOPs of {each.unknown} kernels, such as those of TransformerEngine. Only "
                "their memory traffic counts, so real steps are longer."
            )


def _cells(forecast: Forecast, backend: Backend) -> tuple[str, ...]:
    times = forecast.times[backend]
    seconds = (times.step, times.compute, times.slowed, times.exposed, times.transfers)
    return (backend, *map(format_seconds, seconds), f"{forecast.tflops(backend):,.0f}")


def format_seconds(seconds: float) -> str:
    """Returns `1.23 s`, `45.6 ms`, `7.8 µs`: three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            break
    value = seconds / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def _object(forecast: Forecast, machine: Machine) -> dict[str, object]:
    return {
        "program": forecast.title,
        "cluster": machine.cluster.name,
        "devices": forecast.devices,
        "collectives": forecast.collectives,
        "on_nvshmem": forecast.on_nvshmem,
        "divided": forecast.divided,
        "kernels_of_unknown_arithmetic": forecast.unknown,
        "gain": forecast.gain,
        **{
            backend.lower(): {
                "step_s": forecast.times[backend].step,
                "compute_s": forecast.times[backend].compute,
                "slowed_s": forecast.times[backend].slowed,
                "exposed_s": forecast.times[backend].exposed,
                "transfers_s": forecast.times[backend].transfers,
                "tflops_per_device": forecast.tflops(backend),
            }
            for backend in BACKENDS
        },
    }
