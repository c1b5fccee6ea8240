"""Programs with every collective over given groups, in the form of `tests/random_programs/program_form.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from program_form import Op, Program, ProgramSet

Groups = Sequence[Sequence[int]]

# The collective, its parameters, and whether its operand has a part for each member.
_OPS: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("psum", {"axes": ["a"]}, False),
    ("pmax", {"axes": ["a"]}, False),
    ("pmin", {"axes": ["a"]}, False),
    ("all_reduce", {"reduction": "Mul"}, False),
    ("all_gather", {"axes": ["a"], "dimension": 0, "tiled": True}, False),
    ("psum_scatter", {"axes": ["a"], "dimension": 0, "tiled": True}, True),
    ("reduce_scatter", {"reduction": "Max", "dimension": 0}, True),
    ("all_to_all", {"axes": ["a"], "split": 0, "concat": 0, "tiled": True}, True),
)
_BROADCAST = ("broadcast", {}, False)


def ops_over(groups: Groups, dtype: str, *, broadcast: bool = False) -> list[Op]:
    """Every collective of a type over these groups of positions in the mesh; permutes rotate each group.

    Args:
      broadcast: with collective-broadcasts, which stock XLA:CPU cannot run.
    """
    size = len(groups[0])
    rotations = [[group[i], group[(i + 1) % size]] for group in groups for i in range(size)]
    where = {"groups": [list(group) for group in groups], "dtype": dtype}
    ops = [
        {"op": name, "parts": size if parts else 1, **where, **parameters}
        for name, parameters, parts in (*_OPS, *([_BROADCAST] if broadcast else []))
        if _has_order(dtype) or name not in ("pmax", "pmin", "reduce_scatter")
    ]
    return [*ops, {"op": "ppermute", "axes": ["a"], "parts": 1, **where, "groups": None, "pairs": rotations}]


def _has_order(dtype: str) -> bool:
    return not dtype.startswith("complex")


def program_of(name: str, ops: Sequence[Op], *, ranks: int, elements: int) -> Program:
    """A program of all ranks that runs each op on an input of its own: so many elements for each member of a group."""
    body = [{**op, "in": [i], "out": [len(ops) + i]} for i, op in enumerate(ops)]
    return {
        "name": name,
        "order": list(range(ranks)),
        "shape": [ranks],
        "axes": ["a"],
        "inputs": [[[elements * op["parts"]], op["dtype"]] for op in ops],
        "donate": [],
        "body": body,
        "results": [len(ops) + i for i in range(len(ops))],
    }


def set_of(*programs: Program, times: int = 2) -> ProgramSet:
    """A set in which one thread runs each program so often, with other inputs each time."""
    runs = [[index, seed] for seed in range(times) for index in range(len(programs))]
    every = list(range(len(runs)))
    return {"programs": list(programs), "runs": runs, "threads": [{"runs": every, "wait": every}]}
