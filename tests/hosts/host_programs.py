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


def ops_over(groups: Groups, *, broadcast: bool = False) -> list[Op]:
    """Every collective over these groups of positions in the mesh, without operands; permutes rotate each group.

    Args:
      broadcast: with collective-broadcasts, which stock XLA:CPU cannot run.
    """
    size = len(groups[0])
    rotations = [[group[i], group[(i + 1) % size]] for group in groups for i in range(size)]
    ops = [
        {"op": name, "groups": [list(group) for group in groups], "parts": size if parts else 1, **parameters}
        for name, parameters, parts in (*_OPS, *([_BROADCAST] if broadcast else []))
    ]
    permute = {"op": "ppermute", "axes": ["a"], "groups": None, "parts": 1, "pairs": rotations}
    return [*ops, permute] if size > 1 else ops


def program_of(ops: Sequence[Op], *, name: str, order: Sequence[int], elements: int, dtype: str) -> Program:
    """A program that runs each op on an input of its own: a vector of so many elements for each member of a group.

    Args:
      order: position in the job of each device of the mesh.
    """
    body = [
        {**{key: value for key, value in op.items() if key != "parts"}, "in": [i], "out": [len(ops) + i]}
        for i, op in enumerate(ops)
    ]
    return {
        "name": name,
        "order": list(order),
        "shape": [len(order)],
        "axes": ["a"],
        "inputs": [[[elements * op["parts"]], dtype] for op in ops],
        "donate": [],
        "body": body,
        "results": [len(ops) + i for i in range(len(ops))],
    }


def set_of(*programs: Program, times: int = 2) -> ProgramSet:
    """A set in which one thread runs each program so often, with other inputs each time."""
    runs = [[index, seed] for seed in range(times) for index in range(len(programs))]
    all_runs = list(range(len(runs)))
    return {"programs": list(programs), "runs": runs, "threads": [{"runs": all_runs, "wait": all_runs}]}
