"""Compares the collectives of two dumps of a program."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from xla_shmem.hlo.collective_report import group_count, source_line
from xla_shmem.hlo.files import HloFileError
from xla_shmem.inspect.modules import InspectedModule
from xla_shmem.inspect.overlap import describe_overlap
from xla_shmem.quantities import format_bytes

Record = Mapping[str, Any]

#: The compared properties of a record, by their names in the report.
_COMPARED: Mapping[str, Callable[[Record], str]] = {
    "backend": lambda record: record["backend"],
    "runs on": lambda record: record["lowered"],
    "op": lambda record: record["op"],
    "type": lambda record: record["dtype"],
    "bytes": lambda record: str(record["bytes"]),
    "groups": group_count,
    "pairs": lambda record: str(record["num_pairs"]),
    "runs per step": lambda record: "unknown" if record["executions"] is None else str(record["executions"]),
}


@dataclass(frozen=True)
class Change:
    """A collective of both dumps with differences.

    Attributes:
      before, after: its records.
      differences: (property, before, after) of each difference.
    """

    before: Record
    after: Record
    differences: Sequence[tuple[str, str, str]]

    def describe(self) -> str:
        """Returns the collective as it is after the change, with both names if they differ."""
        names = [self.before["name"], self.after["name"]]
        return describe_collective(self.after, names[0] if names[0] == names[1] else " → ".join(names))


@dataclass
class Difference:
    """The differences between the collectives of two modules.

    Attributes:
      module: name of the module; both names if they differ.
      vanished: collectives of the first module only.
      appeared: collectives of the second module only.
      changed: collectives of both modules, with differences.
      equal: number of collectives that are equal in both.
      only_in: ``"before"`` or ``"after"`` for a module that the other dump lacks; ``""`` for a module of both.
    """

    module: str
    vanished: list[Record] = field(default_factory=list)
    appeared: list[Record] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    equal: int = 0
    only_in: Literal["", "before", "after"] = ""

    def summary(self) -> str:
        """Returns the numbers in a sentence."""
        return (
            f"{len(self.vanished)} vanished, {len(self.appeared)} appeared, "
            f"{len(self.changed)} changed, {self.equal} equal."
        )


def describe_collective(record: Record, name: str | None = None) -> str:
    """Returns name, op, type, bytes, groups, backend and source line of a collective; ``name`` replaces its own."""
    source = f", {source_line(record)}" if record["source_file"] else ""
    return (
        f"{name or record['name']}  {record['op']} {record['dtype']} {format_bytes(record['bytes'])}, "
        f"{group_count(record)}, {record['lowered']}{source}"
    )


def compare(before: Sequence[InspectedModule], after: Sequence[InspectedModule]) -> list[Difference]:
    """Compares modules of the same name. If both dumps have one module, compares these two.

    Returns:
      The modules of both dumps, then those of one of them: all their collectives have vanished or appeared.

    Raises:
      HloFileError: no module is in both.
    """
    pairs = _pair_modules(before, after)
    if not pairs:
        names = [", ".join(sorted({module.input.name for module in modules})) for modules in (before, after)]
        raise HloFileError(f"diff: no module is in both dumps; the first has {names[0]}, the second {names[1]}.")
    paired = {id(module) for pair in pairs for module in pair}
    vanished = [
        Difference(module.input.name, vanished=_in_order(module), only_in="before")
        for module in before
        if id(module) not in paired
    ]
    appeared = [
        Difference(module.input.name, appeared=_in_order(module), only_in="after")
        for module in after
        if id(module) not in paired
    ]
    return [*(_compare(first, second) for first, second in pairs), *vanished, *appeared]


def _pair_modules(
    before: Sequence[InspectedModule], after: Sequence[InspectedModule]
) -> list[tuple[InspectedModule, InspectedModule]]:
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    waiting: dict[str, list[InspectedModule]] = defaultdict(list)
    for module in after:
        waiting[module.input.name].append(module)
    return [(module, waiting[module.input.name].pop(0)) for module in before if waiting[module.input.name]]


def match(before: Sequence[Record], after: Sequence[Record]) -> list[tuple[int, int]]:
    """Returns the indices of records that describe the same collective.

    Matches by name and op first. Names change between releases of XLA, so the rest is matched by op, source line, bytes
    and order, and then by op, source line and order.
    """
    keys: Sequence[Callable[[Record], Hashable]] = (
        lambda record: (record["name"], record["op"]),
        lambda record: (record["op"], record["source_file"], record["source_line"], record["bytes"]),
        lambda record: (record["op"], record["source_file"], record["source_line"]),
    )
    matched: dict[int, int] = {}
    taken: set[int] = set()
    for key in keys:
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for index in reversed(range(len(after))):
            if index not in taken:
                waiting[key(after[index])].append(index)
        for index, record in enumerate(before):
            if index not in matched and waiting[key(record)]:
                matched[index] = waiting[key(record)].pop()
                taken.add(matched[index])
    return sorted(matched.items())


def _compare(before: InspectedModule, after: InspectedModule) -> Difference:
    names = [before.input.name, after.input.name]
    result = Difference(names[0] if names[0] == names[1] else " → ".join(names))
    first, second = _in_order(before), _in_order(after)
    matched = match(first, second)
    moved = _moved([index for _, index in matched])
    left, right = {i for i, _ in matched}, {j for _, j in matched}
    result.vanished = [record for index, record in enumerate(first) if index not in left]
    result.appeared = [record for index, record in enumerate(second) if index not in right]
    for place, (i, j) in enumerate(matched):
        differences = [
            (what, text(first[i]), text(second[j]))
            for what, text in _COMPARED.items()
            if text(first[i]) != text(second[j])
        ]
        if place in moved:
            differences.append(("order", f"collective {i + 1}", f"collective {j + 1}"))
        before_overlap, after_overlap = _overlap(before, first[i]), _overlap(after, second[j])
        if before_overlap != after_overlap:
            differences.append(("overlaps with", before_overlap, after_overlap))
        if differences:
            result.changed.append(Change(first[i], second[j], differences))
        else:
            result.equal += 1
    return result


def _overlap(module: InspectedModule, record: Record) -> str:
    return describe_overlap(module.overlaps.get((record["computation"], record["name"])))


def _in_order(module: InspectedModule) -> list[Record]:
    """Returns the records in the order of the schedule, computation by computation."""
    order = {
        (computation["name"], step["name"]): (number, position)
        for number, computation in enumerate(module.schedule)
        for position, step in enumerate(computation["instructions"])
        if step["collective"]
    }
    last = (len(module.schedule), 0)
    return sorted(module.records, key=lambda record: order.get((record["computation"], record["name"]), last))


def _moved(order: Sequence[int]) -> set[int]:
    """Returns the places outside a longest increasing subsequence; without these few the order is the same."""
    ends: list[int] = []  # value that ends the best subsequence of each length
    places: list[int] = []
    previous: list[int] = []
    for place, value in enumerate(order):
        length = bisect.bisect_left(ends, value)
        previous.append(places[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        places[length : length + 1] = [place]
    kept: set[int] = set()
    place = places[-1] if places else -1
    while place >= 0:
        kept.add(place)
        place = previous[place]
    return set(range(len(order))) - kept
