"""Which collectives changed between two dumps of a program."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xla_shmem.hlo.files import HloFileError
from xla_shmem.inspect.modules import InspectedModule
from xla_shmem.inspect.overlap import describe_overlap

Record = Mapping[str, Any]

#: What of a record counts as a change, and under which name.
_COMPARED: Mapping[str, Callable[[Record], str]] = {
    "backend": lambda record: record["backend"],
    "runs on": lambda record: record["lowered"],
    "op": lambda record: record["op"],
    "type": lambda record: record["dtype"],
    "bytes": lambda record: str(record["bytes"]),
    "groups": lambda record: f"{record['num_groups']} × {record['group_size']}",
    "pairs": lambda record: str(record["num_pairs"]),
    "times a step": lambda record: "unknown" if record["executions"] is None else str(record["executions"]),
}


@dataclass(frozen=True)
class Change:
    """A collective of both dumps of which something differs.

    Attributes:
      before, after: its two records.
      differences: what differs, as (what, before, after).
    """

    before: Record
    after: Record
    differences: Sequence[tuple[str, str, str]]


@dataclass
class Difference:
    """What differs between the collectives of two modules.

    Attributes:
      module: name of the module, both if they differ.
      vanished: only in the first.
      appeared: only in the second.
      changed: in both, with differences.
      equal: number of collectives that are the same in both.
    """

    module: str
    vanished: list[Record] = field(default_factory=list)
    appeared: list[Record] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    equal: int = 0


def compare(before: Sequence[InspectedModule], after: Sequence[InspectedModule]) -> list[Difference]:
    """Compares the modules of two dumps by their names, and the two if there is one in each.

    Raises:
      HloFileError: no module is in both.
    """
    pairs = _pair_modules(before, after)
    if not pairs:
        names = [", ".join(sorted({module.input.name for module in modules})) for modules in (before, after)]
        raise HloFileError(f"--diff: no module is in both dumps; the first has {names[0]}, the second {names[1]}.")
    return [_compare(first, second) for first, second in pairs]


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
    """Returns which record of one is which of the other, as indices.

    First by name and op. XLA numbers instructions anew in every release, so what is left is matched by op, source
    line, bytes and order, and after that by op, source line and order.
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
        hidden, hides = _beside(before, first[i]), _beside(after, second[j])
        if hidden != hides:
            differences.append(("beside it", hidden, hides))
        if differences:
            result.changed.append(Change(first[i], second[j], differences))
        else:
            result.equal += 1
    return result


def _beside(module: InspectedModule, record: Record) -> str:
    return describe_overlap(module.overlaps.get((record["computation"], record["name"])))


def _in_order(module: InspectedModule) -> list[Record]:
    """The records as the schedule starts them, computation by computation."""
    order = {
        (computation["name"], step["name"]): (number, position)
        for number, computation in enumerate(module.schedule)
        for position, step in enumerate(computation["instructions"])
        if step["collective"]
    }
    last = (len(module.schedule), 0)
    return sorted(module.records, key=lambda record: order.get((record["computation"], record["name"]), last))


def _moved(order: Sequence[int]) -> set[int]:
    """Places outside a longest increasing subsequence: as few as have to move for the rest to be in order."""
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
