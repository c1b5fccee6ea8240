"""The work that XLA has scheduled between the start and the done of a collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from xla_shmem.console import report_table
from xla_shmem.quantities import format_bytes, format_flops, plural

if TYPE_CHECKING:
    from xla_shmem import _core


@dataclass(frozen=True)
class Overlap:
    """The work beside one execution of a collective: the instructions between its start and its done.

    Attributes:
      start, done: names of the two instructions.
      position: position of the start in the computation's schedule.
      done_position: position of the done.
      compute: instructions that calculate or copy, in their order.
      controls: loops, calls and branches. Their work is not in the sums.
      collectives: number of other collectives that start or run.
      flops: floating-point operations of ``compute``; None if one of its instructions is a call of a library.
      bytes: bytes read and written by ``compute``; None if unknown.
    """

    start: str
    done: str
    position: int
    done_position: int
    compute: tuple[str, ...]
    controls: tuple[str, ...]
    collectives: int
    flops: int | None
    bytes: int | None


def find_overlaps(schedule: Sequence[_core.ComputationSchedule]) -> dict[tuple[str, str], Overlap]:
    """Returns the overlap of every start/done pair by computation and name of the start."""
    overlaps = {}
    for computation in schedule:
        steps = computation["instructions"]
        position = {step["name"]: index for index, step in enumerate(steps)}
        for index, step in enumerate(steps):
            start = step["start"]
            if start in position and step["collective"]:
                overlaps[computation["name"], start] = _between(steps, position[start], index)
    return overlaps


def _between(steps: Sequence[_core.ScheduledInstruction], start: int, done: int) -> Overlap:
    between = steps[start + 1 : done]
    compute = [step for step in between if step["category"] == "compute"]
    return Overlap(
        start=steps[start]["name"],
        done=steps[done]["name"],
        position=start,
        done_position=done,
        compute=tuple(step["name"] for step in compute),
        controls=tuple(step["name"] for step in between if step["category"] == "control"),
        collectives=sum(step["collective"] and step["start"] is None for step in between),
        flops=_sum(step["flops"] for step in compute),
        bytes=_sum(step["bytes"] for step in compute),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def overlap_as_json(overlap: Overlap | None) -> dict[str, Any] | None:
    """Returns the overlap of a record; None for a synchronous collective."""
    return None if overlap is None else asdict(overlap)


def describe_overlap(overlap: Overlap | None) -> str:
    """Returns the overlap in words: ``3 instructions, 1.2 GFLOP, 4.0 MiB``."""
    if overlap is None:
        return "nothing (synchronous)"
    parts = []
    if overlap.compute:
        parts.append(plural(len(overlap.compute), "instruction"))
        parts.append("unknown FLOP" if overlap.flops is None else format_flops(overlap.flops))
        parts.append("unknown bytes" if overlap.bytes is None else format_bytes(overlap.bytes))
    if overlap.collectives:
        parts.append(plural(overlap.collectives, "other collective"))
    parts += [f"all of {name}" for name in overlap.controls]
    return ", ".join(parts) or "nothing"


def overlap_table(records: Iterable[Mapping[str, Any]], overlaps: Mapping[tuple[str, str], Overlap]) -> Table:
    """Returns a table with the overlap of each collective."""
    table = report_table()
    table.add_column("HLO name", overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("between start and done", overflow="fold")
    for record in records:
        overlap = overlaps.get((record["computation"], record["name"]))
        hides = overlap is not None and (overlap.compute or overlap.controls)
        words = Text(describe_overlap(overlap), style="green" if hides else "yellow")
        table.add_row(Text(record["name"]), format_bytes(record["bytes"]), words)
    return table
