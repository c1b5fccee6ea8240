"""Compares profile `tuned` with stock JAX and profile `upstream`, in turns.

`upstream` and `tuned` are two jobs, whose rules are set in the environment as a user sets them. Stock runs in the first
job. If `tuned` chose the same backend as the faster of the other two, the programs are equal, and the difference of the
times is noise. If it chose another backend, it must not be slower by the comparison that the pass uses.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TextIO

from xla_shmem.bench import jobs, measure
from xla_shmem.bench.plan import Plan
from xla_shmem.bench.results import Row
from xla_shmem.bench.text_columns import TextColumns, columns_for
from xla_shmem.errors import BenchError
from xla_shmem.options import Options, fingerprint
from xla_shmem.options.tuning_table import Measured, Table, TunedRow
from xla_shmem.runtime.gpu_flags import Choice, chosen_flags
from xla_shmem.tune.measuring import fingerprint_of_ranks

#: `same`: tuned chose the backend of the faster one of stock and upstream. Otherwise its own choice is `faster`, `even`
#: (no significant difference) or `slower`.
Verdict = Literal["same", "faster", "even", "slower"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The comparison of one row: medians in µs, and the verdict.

    Attributes:
      stock_us, upstream_us: None if the variant cannot run the op.
      backend: choice of `tuned`: a backend, or a way of the default one.
      ratio: median of `tuned` divided by the median of the faster of the others.
    """

    op: str
    dtype: str
    group: int
    bytes: int
    stock_us: float | None
    upstream_us: float | None
    tuned_us: float
    backend: str
    ratio: float
    verdict: Verdict

    def line(self, form: TextColumns) -> str:
        """Returns the comparison as a line of text."""
        cells = {"op": self.op, "type": self.dtype, "group": str(self.group), "bytes": str(self.bytes)}
        times = {"stock": self.stock_us, "upstream": self.upstream_us, "tuned": self.tuned_us}
        cells |= {name: "" if us is None else f"{us:.2f}" for name, us in times.items()}
        return form.line(cells | {"choice": self.backend, "ratio": f"{self.ratio:.2f}", "verdict": self.verdict})


def columns(stream: TextIO) -> TextColumns:
    """Returns the columns for a stream; times are in µs."""
    times = {"stock": 10, "upstream": 10, "tuned": 10}
    full = {"op": 20, "type": 5, "group": 5, "bytes": 10, **times, "choice": 12, "ratio": 7, "verdict": 7}
    narrow = {"op": 17, "bytes": 10, **times, "ratio": 6, "verdict": 7}
    return columns_for(stream, TextColumns(full), TextColumns(narrow))


def compare(every: Sequence[Plan], path: Path, options: Options) -> Iterator[Comparison]:
    """Yields each row of the plans as it is measured.

    Args:
      every: plans that differ in groups and element types only.
      path: of the table; a file of the hosts on which the ranks run.
      options: profile `tuned` with the table.

    Raises:
      BenchError: `tuned` did not run a collective, or the ranks' hosts are not those of the table.
      JobFailed: a job ended early.
    """
    tuned = {"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": str(path.absolute())}
    # An empty variable counts as unset, so that only the profile is set.
    unset = {"XLA_SHMEM_OPS": "", "XLA_SHMEM_THRESHOLD": "", "XLA_SHMEM_HIERARCHICAL": ""}
    starts = {
        "upstream": jobs.launched(every[0], {**os.environ, **unset, "XLA_SHMEM_PROFILE": "upstream"}),
        "tuned": jobs.launched(every[0], {**os.environ, **unset, **tuned}),
    }
    launcher, table = every[0].launcher, options.tuning
    assert table is not None
    flags = chosen_flags(options, every[0].processes, os.environ)
    ways = {choice.op: choice for choice in flags if not choice.refused}
    with jobs.connected_jobs(starts, other_hosts=bool(launcher)) as running:
        if launcher and (
            difference := fingerprint.difference(table.fingerprint, fingerprint_of_ranks(running["tuned"]))
        ):
            raise BenchError(f"{path} {difference}; run `xla-shmem tune` again.")
        variants = {"stock": running["upstream"], "upstream": running["upstream"], "tuned": running["tuned"]}
        for plan in every:
            for row in measure.measure(plan, variants):
                yield judge(row, ways)


def judge(row: Row, flags: Mapping[str, Choice] = MappingProxyType({})) -> Comparison:
    """Returns the comparison for a row with the variants `stock`, `upstream` and `tuned`.

    Args:
      row: as measured.
      flags: by op, what the job of `tuned` chose by flags of XLA.

    Raises:
      BenchError: `tuned` did not run the collective.
    """
    if not row.times["tuned"].us:
        raise BenchError(f"{row.cell.op} of {row.cell.bytes} B did not run: {row.times['tuned'].reason}.")
    medians = {name: times.median for name, times in row.times.items() if times.us}
    rivals = {name: us for name, us in medians.items() if name != "tuned"}
    better = min(rivals, key=rivals.__getitem__, default="tuned")
    chosen = {name: _choice(row.records[name], flags if name == "tuned" else {}) for name in medians}
    return Comparison(
        op=row.cell.op,
        dtype=row.cell.dtype,
        group=row.cell.group,
        bytes=row.cell.bytes,
        stock_us=medians.get("stock"),
        upstream_us=medians.get("upstream"),
        tuned_us=medians["tuned"],
        backend=chosen["tuned"],
        ratio=medians["tuned"] / medians[better],
        verdict="same" if chosen["tuned"] == chosen[better] else _own_choice(row, better),
    )


def _choice(record: Mapping[str, Any], flags: Mapping[str, Choice]) -> str:
    """The backend, or the way that the pass or a flag has chosen for the default backend."""
    if record["num_domains"]:
        return "HIERARCHICAL"
    if record.get("chosen_way"):
        return str(record["chosen_way"])
    flag = flags.get(record["op"])
    if record["lowered"] == "DEFAULT" and flag is not None and record["bytes"] <= (flag.most or record["bytes"]):
        return flag.way
    return str(record["lowered"])


def _own_choice(row: Row, better: str) -> Verdict:
    """Compares as the pass does, which may say "neither"; which of the two is on SHMEM does not matter to it."""
    times = (Measured.of(row.times["tuned"].us), Measured.of(row.times[better].us))
    line = TunedRow(row.records["tuned"]["op"], row.cell.dtype, row.cell.group, row.cell.bytes, *times)
    faster = Table("cpu", {}, {}, (line,)).core("cpu").faster(line.op, line.dtype, line.group, line.bytes)
    return "even" if faster == "neither" else "faster" if faster == "NVSHMEM" else "slower"


def summary(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns the result of all comparisons, in sentences."""
    counts = {verdict: sum(one.verdict == verdict for one in comparisons) for verdict in ("same", "faster", "even")}
    lines = [
        f"# Of {len(comparisons)} rows, tuned chose the backend of the faster of stock and upstream in "
        f"{counts['same']}. Another choice was faster in {counts['faster']}, even in {counts['even']}, and slower in "
        f"{len(slower(comparisons))}."
    ]
    noise = sorted(one.ratio for one in comparisons if one.verdict == "same")
    if len(noise) >= 2:
        tenths = statistics.quantiles(noise, n=20, method="inclusive")
        lines.append(
            f"# Noise of this run, from equal programs in two jobs: median ratio {statistics.median(noise):.2f}; 90 % "
            f"of the ratios are from {tenths[0]:.2f} to {tenths[-1]:.2f}."
        )
    return lines


def slower(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Returns the comparisons in which `tuned` was slower."""
    return [one for one in comparisons if one.verdict == "slower"]
