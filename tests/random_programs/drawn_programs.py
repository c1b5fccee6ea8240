"""Hypothesis draws sets of random programs: loops and branches, meshes, inputs, runs and threads."""

from __future__ import annotations

from typing import Any

from drawn_ops import COLLECTIVES, LOCAL, MAX_ELEMENTS, Draw, Scope, Value
from hypothesis import strategies as st
from program_form import EXACT, SMALL, TYPES, Program, ProgramSet, is_complex

# --- control flow --------------------------------------------------------------------------------------------------


def _region(s: Scope, carried: list[Value], *, counted: bool = False, axes: tuple[str, ...] | None = None) -> Any:
    """A region from values of the types of `carried` to values of the same types."""
    counter = s.new((), "int32") if counted else None
    params = [s.new(v.shape, v.dtype, SMALL) for v in carried]
    inner = Scope(
        s.draw,
        s.mesh,
        s.axes if axes is None else axes,
        s.numbers,
        params.copy(),
        s.types,
        [],
        counter or s.counter,
        s.depth + 1,
    )
    for _ in range(s.draw(st.integers(1, 3))):
        _draw_op(inner)
    results = []
    for v in params:
        last = next(w for w in reversed(inner.values) if (w.shape, w.dtype) == (v.shape, v.dtype))
        results.append(inner.clipped(last))
    heads = [counter] if counter else []
    return {
        "params": [v.number for v in (*heads, *params)],
        "body": inner.ops,
        "results": [v.number for v in results],
    }


def _carried(s: Scope) -> list[Value]:
    values: list[Value] = []
    for _ in range(s.draw(st.integers(1, 2))):
        v = s.any()
        assert v
        values.append(s.clipped(v))
    return values


def _results(s: Scope, carried: list[Value]) -> list[Value]:
    return [s.new(v.shape, v.dtype, SMALL) for v in carried]


def _loop(s: Scope) -> None:
    kind, carried = s.draw(st.sampled_from(["fori_loop", "scan"])), _carried(s)
    steps = s.draw(st.integers(1, 4))
    region = _region(s, carried, counted=True)
    results = _results(s, carried)
    if kind == "scan" and steps * carried[0].size <= MAX_ELEMENTS:
        stacked = s.new((steps, *carried[0].shape), carried[0].dtype, SMALL)
        s.add("scan", carried, [*results, stacked], steps=steps, region=region)
    else:
        s.add("fori_loop", carried, results, steps=steps, region=region)


def _test(s: Scope) -> tuple[Value, int] | None:
    """A value whose largest first element, over all devices that run together, is compared with a number."""
    found = [v for v in reversed(s.values) if not is_complex(v.dtype) and v.dtype != "bool"]
    return (s.draw(st.sampled_from(found)), s.draw(st.integers(0, 2))) if found else None


def _while(s: Scope) -> None:
    first = s.any(but=("bool", "complex64", "complex128"))
    if first:
        carried = [s.clipped(first), *_carried(s)]
        steps, limit = s.draw(st.integers(1, 4)), s.draw(st.integers(0, 2))
        region = _region(s, carried)
        s.add("while", carried, _results(s, carried), steps=steps, limit=limit, axes=list(s.axes), region=region)


def _cond(s: Scope) -> None:
    """A branch that all devices take together, or that each row of the mesh takes by itself."""
    carried = _carried(s)
    rows = [a for a in s.axes if len(s.axes) > 1]
    if rows and s.draw(st.booleans()):
        row = s.draw(st.sampled_from(rows))
        others = tuple(a for a in s.axes if a != row)
        branches = [_region(s, carried, axes=others) for _ in range(2)]
        s.add("cond_row", carried, _results(s, carried), row=row, branches=branches)
        return
    test = _test(s)
    if test:
        branches = [_region(s, carried) for _ in range(2)]
        s.add("cond", [test[0], *carried], _results(s, carried), limit=test[1], axes=list(s.axes), branches=branches)


def _call(s: Scope) -> None:
    """A jitted function called more than once."""
    carried = _carried(s)
    region = _region(s, carried)
    s.add("call", carried, _results(s, carried), times=s.draw(st.integers(1, 3)), region=region)


_CONTROL = [_loop, _while, _cond, _call]


def _draw_op(s: Scope) -> None:
    kinds = [*COLLECTIVES, *COLLECTIVES, *LOCAL, *(_CONTROL if s.depth < 2 else [])]
    s.draw(st.sampled_from(kinds))(s)


# --- programs ------------------------------------------------------------------------------------------------------


def _shape(draw: Draw, large: bool) -> list[int]:
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 17]), max_size=3))
    return [draw(st.sampled_from([600, 1500, 5000, 20_000, 60_000])), *shape[:1]] if large else shape


def _program(draw: Draw, name: str, devices: int, types: tuple[str, ...], *, literal: int | None = None) -> Program:
    used = devices
    if devices > 2 and draw(st.integers(0, 5)) == 5:
        used = draw(st.integers(2, devices))
    order = list(draw(st.permutations(range(devices))))[:used]
    mesh = {"a": 2, "b": 2} if used == 4 and not draw(st.booleans()) else {"a": used}
    large = draw(st.integers(0, 5)) == 5
    inputs = [[_shape(draw, large), draw(st.sampled_from(types))] for _ in range(draw(st.integers(1, 3)))]
    if literal is not None:
        inputs[0] = [[3], "int32"]
    values = [Value(i, tuple(shape), dtype, SMALL if dtype in EXACT else 0) for i, (shape, dtype) in enumerate(inputs)]
    scope = Scope(draw, mesh, tuple(mesh), [len(values)], values, types)
    if literal is not None:
        v = scope.add("add_literal", [values[0]], [scope.new((3,), "int32")], literal=literal)
        scope.add("psum", v, [scope.new((3,), "int32")], axes=list(mesh), groups=None)
    for _ in range(draw(st.integers(1, 6))):
        _draw_op(scope)
    used_values = {number for op in scope.ops for number in op["in"]}
    leaves = [v.number for v in scope.values if v.number not in used_values]
    donate = [i for i in range(len(inputs)) if draw(st.integers(0, 3)) == 3]
    return {
        "name": name,
        "order": order,
        "shape": list(mesh.values()),
        "axes": list(mesh),
        "inputs": inputs,
        "donate": donate,
        "body": scope.ops,
        "results": leaves,
    }


@st.composite
def program_sets(
    draw: Draw, devices: int, threads: bool, several: bool = True, types: tuple[str, ...] = TYPES
) -> ProgramSet:
    """Sets of programs for a job of `devices` devices; with `threads` for two or three Python threads at once.

    Without `several` a thread has one program.
    """
    sizes = [1] if not several else [1, 1, 2] if threads else [1, 2, 3, 4]
    number = draw(st.integers(2, 3)) if threads else 1
    programs: list[Program] = []
    runs: list[list[int]] = []
    plan = []
    # Threads run programs of different names, or of one name that differ in a literal.
    one_name = threads and draw(st.booleans())
    for _ in range(number):
        mine = range(len(programs), len(programs) + draw(st.sampled_from(sizes)))
        for i in mine:
            programs.append(
                _program(draw, "p" if one_name else f"p{i}", devices, types, literal=100 + i if one_name else None)
            )
        started = [*mine, *(draw(st.lists(st.sampled_from(list(mine)), max_size=4)))]
        started = [started[i] for i in draw(st.permutations(range(len(started))))]
        begin = len(runs)
        runs += [[i, draw(st.integers(0, 9))] for i in started]
        plan.append({"runs": list(range(begin, len(runs))), "wait": draw(st.permutations(range(begin, len(runs))))})
    return {"programs": programs, "runs": runs, "threads": plan}
