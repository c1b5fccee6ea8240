"""Parts of divided collectives on GPU, read from the module and run in NumPy, make what the whole does.

So do not parts with other groups or pieces.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable

import numpy as np
import pytest
from hlo_text import run_pass
from test_hierarchical import OPS, module_with

from xla_shmem import _core

Groups = list[list[int]]
#: The operands or results of all devices.
Arrays = list[np.ndarray]
GLOBAL = "use_global_device_ids=true"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part as the module has it; devices by their ids.

    Attributes:
      op: the collective, or the target of the call.
      groups: or pairs of a permute.
      pieces: of a call.
      received_by: devices.
    """

    op: str
    groups: Groups
    pieces: int = 1
    received_by: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Job:
    """Devices in domains; PEs are numbered the other way round."""

    domains: int
    local: int

    @property
    def n(self) -> int:
        return self.domains * self.local

    def domain(self, device: int) -> int:
        return device // self.local

    def parts(self, op: str, operand: str) -> list[Part]:
        """The parts of a module with this op."""
        places = [(i, i, self.domain(i), self.domain(i), self.n - 1 - i) for i in range(self.n)]
        run = run_pass(
            module_with(op, parameters=(operand,)).replace("num_partitions=4", f"num_partitions={self.n}"),
            "gpu",
            topology=_core.Topology(places),
            transport=_core.gpu_transport({i: self.domain(i) for i in range(self.n)}),
            hierarchical="on",
            ops=OPS,
        )
        assert run.changed, run.records
        return [self._part(run.after.instruction(name), run.after, name) for name in run.after.names()[1:]]

    def _part(self, text: str, module: object, name: str) -> Part:
        if "custom-call(" not in text:
            (listed,) = re.findall(r"(?:replica_groups|source_target_pairs)=(\{[{},\d]+\})", text)
            groups = [[int(one) for one in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed)]
            return Part(re.findall(r" ([a-z-]+)\(", text)[0], groups)
        arguments = module.arguments(name)  # type: ignore[attr-defined]

        def devices(key: str) -> list[int]:
            return [self.n - 1 - int(pe) for pe in re.findall(r"\d+", arguments.get(key, "").removeprefix("array<i64"))]

        target = re.findall(r'custom_call_target="xla_shmem\.(\w+)"', text)[0]
        if "pairs" in arguments:
            pairs = devices("pairs")
            groups = [list(pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
            return Part(target, groups, received_by=tuple(devices("received_by")))
        offsets = [int(one) for one in re.findall(r"\d+", arguments["group_offsets"].removeprefix("array<i64"))]
        members = devices("groups")
        groups = [members[begin:end] for begin, end in itertools.pairwise(offsets)]
        return Part(target, groups, int(arguments.get("pieces", "1")))


def _rows(array: np.ndarray, pieces: int, members: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts by piece and member, and what is left over."""
    part = array.size // (pieces * members)
    return array[: part * pieces * members].reshape(pieces, members, part), array[part * pieces * members :]


def run(part: Part, operands: Arrays, received: Arrays, elements: int) -> Arrays:
    """The results of a part on all devices.

    Args:
      received: results of the permute before it.
      elements: of the whole collective's result.
    """
    results = [np.zeros_like(operand) for operand in operands]
    if "permute" in part.op:
        for device in part.received_by:
            results[device] = received[device]
        for source, target in part.groups:
            results[target] = operands[source]
        return results
    for group in part.groups:
        n = len(group)
        whole = [operands[device] for device in group]
        for index, device in enumerate(group):
            match part.op:
                case "all-reduce":
                    made = sum(whole)
                case "all-gather":
                    made = np.concatenate(whole)
                case "reduce-scatter":
                    made = sum(whole).reshape(n, -1)[index]
                case "all-to-all":
                    made = np.concatenate([one.reshape(n, -1)[index] for one in whole])
                case "collective-broadcast" | "collective_broadcast":
                    made = whole[0]
                case "reduce_scatter_parts":
                    rows, rest = _rows(sum(whole), part.pieces, n)
                    made = np.concatenate([rows[:, index].reshape(-1), rest])
                case "all_gather_parts":
                    size, left = whole[0].size, elements % n
                    pieces = [one[: size - left].reshape(part.pieces, -1) for one in whole]
                    made = np.concatenate([np.stack(pieces, 1).reshape(-1), whole[0][size - left :]])
                case "all_to_all_parts":
                    made = np.stack([_rows(one, part.pieces, n)[0][:, index] for one in whole], 1).reshape(-1)
                case _:
                    raise AssertionError(part.op)
            results[device] = np.asarray(made)
    return results


def run_all(parts: list[Part], operands: Arrays, elements: int) -> Arrays:
    """The results of parts one after the other."""
    results = operands
    for part in parts:
        # A permute in the domain moves the operands of the whole.
        before = operands if part.op == "collective_permute_parts" else results
        results = run(part, before, results, elements)
    return results


def _text(groups: Groups) -> str:
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"


def _op(op: str, groups: Groups, elements: int) -> tuple[str, str, int]:
    """The op on the parameter p0 of that many elements; the parameter's shape; elements of the result."""
    n, channel = len(groups[0]), f"channel_id=1, replica_groups={_text(groups)}"
    operand = f"f32[{elements}]{{0}}"
    match op:
        case "all-reduce":
            return f"op = {operand} all-reduce(p0), {channel}, {GLOBAL}, to_apply=add", operand, elements
        case "all-gather":
            result = f"f32[{elements * n}]{{0}}"
            return f"op = {result} all-gather(p0), {channel}, {GLOBAL}, dimensions={{0}}", operand, elements * n
        case "reduce-scatter":
            text = f"reduce-scatter(p0), {channel}, {GLOBAL}, dimensions={{0}}, to_apply=add"
            return f"op = f32[{elements // n}]{{0}} {text}", operand, elements // n
        case "all-to-all":
            return f"op = {operand} all-to-all(p0), {channel}, dimensions={{0}}", operand, elements
        case "collective-broadcast":
            return f"op = {operand} collective-broadcast(p0), {channel}", operand, elements
        case _:
            pairs = f"channel_id=1, source_target_pairs={_text(groups)}"
            return f"op = {operand} collective-permute(p0), {pairs}", operand, elements


#: The orders of devices in a group that the parts can have: domain after domain, or one of each in turn.
ORDERS: dict[str, Callable[[Job], list[int]]] = {
    "by domain": lambda job: list(range(job.n)),
    "in turn": lambda job: [d * job.local + i for i in range(job.local) for d in range(job.domains)],
    "domains turned round": lambda job: [(i + job.local) % job.n for i in range(job.n)],
}
CASES = [
    *(("all-reduce", order) for order in ORDERS),
    *(("all-gather", order) for order in ORDERS),
    *(("reduce-scatter", order) for order in ORDERS),
    ("all-to-all", "by domain"),
    ("all-to-all", "domains turned round"),
    *(("collective-broadcast", order) for order in ORDERS),
    ("collective-permute", "by domain"),
]
JOBS = [Job(2, 2), Job(3, 2), Job(2, 4), Job(2, 3)]


def _divided(job: Job, op: str, order: str) -> tuple[list[Part], Arrays, Arrays, int]:
    """The parts, operands, the results that the whole makes, and elements of a result."""
    devices = ORDERS[order](job)
    elements = job.n * 3 + (1 if op == "all-reduce" else 0)
    groups = [devices]
    if op == "collective-permute":
        groups = [[device, (device + 1) % job.n] for device in devices[:-1]]
    text, operand, result = _op(op, groups, elements)
    operands = list(np.random.default_rng(5).integers(0, 99, (job.n, elements)).astype(np.float64))
    whole = Part(op, groups)
    return job.parts(text, operand), operands, run(whole, operands, operands, result), result


@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize(("op", "order"), CASES)
def test_parts_make_what_the_whole_does(job: Job, op: str, order: str) -> None:
    parts, operands, expected, elements = _divided(job, op, order)
    assert len(parts) == (3 if op == "all-reduce" else 2)
    for made, want in zip(run_all(parts, operands, elements), expected, strict=True):
        assert np.array_equal(made, want)


def _turned(groups: Groups) -> Groups:
    """The groups with their members in another order."""
    return [group[1:] + group[:1] for group in groups]


def _lost(groups: Groups) -> Groups:
    """The groups without the last device of the first one, which gets nothing."""
    return [groups[0][:-1], *groups[1:]] if len(groups[0]) > 2 else groups[1:]


@pytest.mark.parametrize("change", [_turned, _lost])
@pytest.mark.parametrize(("op", "order"), CASES)
def test_parts_with_wrong_groups_make_something_else(op: str, order: str, change: Callable[[Groups], Groups]) -> None:
    parts, operands, expected, elements = _divided(Job(2, 4), op, order)
    for place, part in enumerate(parts):
        if change is _turned and part.op == "all-reduce":
            continue  # sums have no order
        wrong = [*parts[:place], dataclasses.replace(part, groups=change(part.groups)), *parts[place + 1 :]]
        try:
            made = run_all(wrong, operands, elements)
        except ValueError:
            continue  # the sizes of the parts do not fit
        assert not all(map(np.array_equal, made, expected)), part


@pytest.mark.parametrize(("op", "order"), [case for case in CASES if case[0] in ("all-gather", "reduce-scatter")])
def test_parts_with_wrong_pieces_make_something_else(op: str, order: str) -> None:
    parts, operands, expected, elements = _divided(Job(2, 4), op, order)
    wrong = [dataclasses.replace(part, pieces=3 - part.pieces) if "parts" in part.op else part for part in parts]
    assert not all(map(np.array_equal, run_all(wrong, operands, elements), expected))
