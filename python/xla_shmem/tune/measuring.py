"""Measures both backends: the benchmark's cells, over groups and element types, as rows of a tuning table."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence

from xla_shmem.bench import jobs, measure
from xla_shmem.bench.plan import BenchError, Plan
from xla_shmem.bench.results import Row, Times
from xla_shmem.options.tuning_table import Measured, TunedRow

#: The rules of the job that measures: whatever its transport can carry goes to SHMEM.
_RULES = {"XLA_SHMEM_PROFILE": "domain", "XLA_SHMEM_OPS": "all", "XLA_SHMEM_THRESHOLD": "none"}


def group_sizes(text: str | None, pes: int) -> tuple[int, ...]:
    """Reads the groups to measure: a list such as ``2,4``; when omitted the powers of two up to all PEs, and all.

    Raises:
      BenchError: a size that does not divide the PEs.
    """
    if text is None:
        return tuple(sorted({pes} | {2**n for n in range(1, pes.bit_length()) if pes % 2**n == 0}))
    sizes = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) < 2 or pes % int(part):
            raise BenchError(f"--groups {text}: '{part.strip()}' does not divide {pes} PEs into groups of at least 2.")
        sizes.append(int(part))
    return tuple(dict.fromkeys(sizes))


def plans(plan: Plan, groups: Sequence[int], dtypes: Sequence[str]) -> list[Plan]:
    """The plan for every group size and element type.

    Raises:
      BenchError: one of them cannot be run.
    """
    every = [dataclasses.replace(plan, group=group, dtype=dtype) for group in groups for dtype in dtypes]
    for one in every:
        one.validate()
    return every


def measure_rows(every: Sequence[Plan]) -> Iterator[tuple[Row, TunedRow | None]]:
    """Yields each line with its row of the table as it is measured; None for what SHMEM does not run.

    One job runs all plans: they differ in groups and element types only.

    Raises:
      JobFailed: the job ended before it was told to.
    """
    start = jobs.launched(every[0], {**os.environ, **_RULES})
    seen: set[tuple[str, str, int, int]] = set()
    with jobs.connected_jobs({"shmem": start}, every[0].processes) as running:
        variants = {"shmem": running["shmem"], "stock": running["shmem"]}
        for plan in every:
            for row in measure.measure(plan, variants):
                tuned = tuned_row(row.times, row.records)
                # XLA:CPU carries bf16 as f32, so two element types can be one.
                if tuned is not None and (key := (tuned.op, tuned.dtype, tuned.group, tuned.bytes)) in seen:
                    tuned = None
                elif tuned is not None:
                    seen.add(key)
                yield row, tuned


def tuned_row(times: Mapping[str, Times], records: Mapping[str, Mapping[str, object]]) -> TunedRow | None:
    """Returns the row of the table that a line of the benchmark makes; None if SHMEM did not run it.

    Args:
      times: of the variants `shmem` and `stock`.
      records: of the same, as far as they ran.
    """
    if not times["shmem"].us:
        return None
    record = records["shmem"]
    return TunedRow(
        op=str(record["op"]),
        # Of several types, the pass goes by the first.
        dtype=str(record["dtype"]).split(",")[0],
        group=int(str(record["group_size"])),
        bytes=int(str(record["bytes"])),
        nvshmem=Measured.of(times["shmem"].us),
        default=Measured.of(times["stock"].us) if times["stock"].us else None,
    )
