"""The output of `xla-shmem tune`: rows as they are measured, and the crossovers of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TextIO

from xla_shmem.bench.results import Row
from xla_shmem.bench.text_columns import TextColumns, columns_for
from xla_shmem.options import Options
from xla_shmem.options.tuning_table import Measured, Table, TunedRow
from xla_shmem.quantities import format_bytes
from xla_shmem.runtime.gpu_flags import chosen_flags, with_flags
from xla_shmem.tune.crossovers import Curve, curves

_TIMES = {"NVSHMEM (µs)": 33, "DEFAULT (µs)": 33}
_MEDIANS = {"NVSHMEM": 10, "DEFAULT": 10}
#: A table that does not say how many processes measured it is for jobs of several.
_SEVERAL = 2
_CELL = {"type": 5, "group": 5, "hosts": 5, "bytes": 10}


def columns(stream: TextIO) -> TextColumns:
    """Returns the columns for a stream; a narrow terminal gets medians without intervals."""
    full = TextColumns({"op": 20, **_CELL, **_TIMES, "ratio": 8})
    return columns_for(stream, full, TextColumns({"op": 17, **_CELL, **_MEDIANS, "ratio": 8}))


def row_line(row: TunedRow, form: TextColumns) -> str:
    """Returns a measured row as text: medians with their intervals, and DEFAULT's time divided by NVSHMEM's."""
    cells = {"op": row.op, "type": row.dtype, "group": str(row.group), "hosts": str(row.domains)}
    cells["bytes"] = str(row.bytes)
    for name, times in (("NVSHMEM", row.nvshmem), ("DEFAULT", row.default)):
        cells[name] = f"{times.median_us:.2f}" if times else "not run"
        cells[f"{name} (µs)"] = _times(times) if times else "not run"
    if row.default:
        cells["ratio"] = f"{row.default.median_us / row.nvshmem.median_us:.2f}x"
    return form.line(cells)


def left_out(row: Row) -> str:
    """Returns a remark for a row that is not in the table."""
    cell, shmem = row.cell, row.records.get("shmem", {})
    if row.times["shmem"].reason:
        reason = row.times["shmem"].reason
    elif shmem.get("part_of") and "stock" not in row.records:
        reason = "it is always divided, because XLA cannot run it whole"
    else:
        reason = "XLA runs it as a type that was measured before"
    return f"# {cell.op} of {cell.bytes} B ({cell.dtype}): {reason}"


def decided_lines(options: Options, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields what the table decides in a job of as many processes as measured it.

    First the flags that are set for all collectives of an op, or are not and why; then a line for each op, type, group
    size and number of hosts: the choice at each size.

    Args:
      options: profile `tuned` with its table.
      environ: of the job.
    """
    table = options.tuning
    assert table is not None
    processes = int(table.measured.get("plan", {}).get("processes", _SEVERAL))
    flags = chosen_flags(options, processes, environ)
    yield from (f"# {choice.sentence()}" for choice in flags)
    yield "# faster backend by bytes of the result; DEFAULT if the difference is not significant"
    for curve in curves(with_flags(flags, table)):
        hosts = f" over {curve.domains} hosts" if curve.domains > 1 else ""
        yield f"  {curve.op:<20} {curve.dtype:>5}, groups of {curve.group}{hosts}: {_choices(curve)}"


def measured_line(table: Table) -> str:
    """Returns a line with date, load and machine of the measurement."""
    facts = table.measured
    machine = ", ".join(f"{name} {value}" for name, value in table.fingerprint.items())
    return f"# measured {facts.get('date', 'at an unknown date')}, load {facts.get('load', 'unknown')}; {machine}"


def _choices(curve: Curve) -> str:
    parts = [f"{backend} from {format_bytes(first)}" for first, backend in curve.choices]
    return "; ".join([*parts, f"measured up to {format_bytes(curve.last)}"])


def _times(times: Measured) -> str:
    return f"{times.median_us:.2f} ({times.low_us:.2f} to {times.high_us:.2f})"
