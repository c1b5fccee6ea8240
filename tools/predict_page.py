"""Writes the tables of docs/predict.md from the model, between the comments that mark them; other text stays.

python tools/predict_page.py docs/predict.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from compiled_rows import CLUSTER, read_rows
from fit_predict import Fit
from published_gains import read_bands
from table2 import Row
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants, sources
from xla_shmem.predict.forecast import Forecast, forecast
from xla_shmem.predict.program import Backend, Program
from xla_shmem.predict.report import format_seconds
from xla_shmem.predict.sketch import sketch
from xla_shmem.predict.walk import Machine
from xla_shmem.train.throughput import step_flops


def write_tables(text: str, rows: Mapping[Row, Program], fit: Fit) -> str:
    """The page with every marked table replaced.

    Args:
      text: the page.
      rows: the compiled rows.
      fit: the fit to these rows.

    Raises:
      ValueError: the page marks an unknown table, or lacks one.
    """
    tables: Mapping[str, Callable[[], list[str]]] = {
        "constants": _constants,
        "rows": lambda: _rows(rows),
        "leave-one-out": lambda: _leave_one_out(fit),
        "attention": lambda: _attention(rows),
    }
    marks = re.findall(r"<!-- table: ([\w-]+) -->", text)
    if sorted(marks) != sorted(tables):
        raise ValueError(f"the page marks {', '.join(marks)}; the tables are {', '.join(tables)}.")
    for name, make in tables.items():
        made = "\n".join(make())
        before, mark, rest = text.partition(f"<!-- table: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}{mark}{made}\n{end}{after}"
    return text


def _constants() -> list[str]:
    lines = ["| constant | value | source |", "|---|---:|---|"]
    return lines + [f"| `{name}` | {value:g} | {source} |" for name, value, source in sources()]


def _rows(rows: Mapping[Row, Program]) -> list[str]:
    cluster = read_cluster(CLUSTER)
    machine = Machine(cluster, read_constants())
    bands = {band.sequence: f"{band.low * 100:.1f} % to {band.high * 100:.1f} %" for band in read_bands()}
    lines = [
        "| row | GPUs | DEFAULT: step | exposed | TFLOP/s | NVSHMEM: step | exposed | TFLOP/s | predicted gain "
        "| published, all rows of the length | gain, sketched |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    for row, program in rows.items():
        found = _forecast(row, program, machine)
        sketched = _forecast(row, sketch(row.job(), cluster), machine)
        cells = (
            str(row),
            str(found.devices),
            *(cell for backend in found.times for cell in _cells(found, backend)),
            f"{found.gain * 100:.1f} %",
            bands.get(row.sequence, "not known"),
            f"{sketched.gain * 100:.1f} %",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(found: Forecast, backend: Backend) -> tuple[str, str, str]:
    times = found.times[backend]
    return format_seconds(times.step), format_seconds(times.exposed), f"{found.tflops(backend):,.0f}"


def _leave_one_out(fit: Fit) -> list[str]:
    bands = read_bands()
    kept = read_constants().channel_gb_per_s
    lines = [
        "| length | published | fitted to both: error | fitted without it: GB/s of a channel | predicted | error |",
        "|---|---|---:|---:|---|---:|",
    ]
    for left in fit.leave_one_out(bands):
        band = left.band
        lines.append(
            f"| {band.sequence >> 10}K | {band.low * 100:.1f} % to {band.high * 100:.1f} % "
            f"| {fit.error(band, kept) * 100:.0f} % | {left.channel_gb_per_s:g} "
            f"| {left.low * 100:.1f} % to {left.high * 100:.1f} % | {left.error * 100:.0f} % |"
        )
    return lines


def _attention(rows: Mapping[Row, Program]) -> list[str]:
    constants, cluster = read_constants(), read_cluster(CLUSTER)
    lines = [
        "| row | NVSHMEM: step, fused | gain | step, as compiled | gain |",
        "|---|---:|---:|---:|---:|",
    ]
    for row, program in rows.items():
        cells = [str(row)]
        for fused in (True, False):
            found = _forecast(row, program, Machine(cluster, constants, fused_attention=fused))
            cells += [format_seconds(found.times["NVSHMEM"].step), f"{found.gain * 100:.1f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _forecast(row: Row, program: Program, machine: Machine) -> Forecast:
    job = row.job()
    return forecast(str(row), program, machine, step_flops(job.model(), job.batch, job.sequence))


def main(path: Path) -> None:
    """Writes the tables."""
    rows = read_rows()
    path.write_text(write_tables(path.read_text(), rows, Fit(rows)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
