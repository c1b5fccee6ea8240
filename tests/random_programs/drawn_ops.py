"""Hypothesis draws ops of random programs: what a device computes by itself, and collectives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from program_form import CONVERTED, EXACT, SMALL, TYPES, Op, is_complex, is_unsigned

MAX_ELEMENTS = 1 << 18

Draw = Any


@dataclass(frozen=True)
class Value:
    """A value of a program, on one device. `bound`: its largest absolute value, if its type is in `EXACT`."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    bound: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass
class Scope:
    """What ops may use: the values so far, the axes of the mesh that all devices run together, the loop's counter."""

    draw: Draw
    mesh: dict[str, int]
    axes: tuple[str, ...]
    numbers: list[int]
    values: list[Value]
    types: tuple[str, ...] = TYPES
    ops: list[Op] = field(default_factory=list)
    counter: Value | None = None
    depth: int = 0

    @property
    def devices(self) -> int:
        return math.prod(self.mesh.values())

    def new(self, shape: tuple[int, ...], dtype: str, bound: int = 0) -> Value:
        self.numbers[0] += 1
        return Value(self.numbers[0] - 1, shape, dtype, bound if dtype in EXACT else 0)

    def add(self, op: str, operands: list[Value], results: list[Value], **parameters: Any) -> list[Value]:
        self.ops.append(
            {"op": op, "in": [v.number for v in operands], "out": [v.number for v in results], **parameters}
        )
        self.values += results
        return results

    def any(self, *, but: tuple[str, ...] = (), rank: int = 0) -> Value | None:
        """A value of another type than `but` with `rank` dimensions at least; the newest is the simplest choice."""
        found = [v for v in reversed(self.values) if v.dtype not in but and len(v.shape) >= rank]
        return self.draw(st.sampled_from(found)) if found else None

    def fits(self, value: Value, bound: int) -> bool:
        return value.dtype not in EXACT or bound <= EXACT[value.dtype]

    def clipped(self, value: Value) -> Value:
        if value.dtype not in EXACT or value.bound <= SMALL:
            return value
        return self.add("clip", [value], [self.new(value.shape, value.dtype, SMALL)], limit=SMALL)[0]


# --- ops of one device ---------------------------------------------------------------------------------------------


def _add_literal(s: Scope) -> None:
    v = s.any(but=("bool",))
    literal = s.draw(st.integers(1, 3))
    if v and s.fits(v, v.bound + literal):
        s.add("add_literal", [v], [s.new(v.shape, v.dtype, v.bound + literal)], literal=literal)


def _scale(s: Scope) -> None:
    v = s.any(but=("bool",))
    literal = s.draw(st.integers(2, 3))
    if v and s.fits(v, v.bound * literal):
        s.add("scale", [v], [s.new(v.shape, v.dtype, v.bound * literal)], literal=literal)


def _binary(s: Scope) -> None:
    v = s.any(but=("bool",))
    if not v:
        return
    like = [w for w in reversed(s.values) if (w.shape, w.dtype) == (v.shape, v.dtype)]
    w = s.draw(st.sampled_from(like))
    kinds = ["add"]
    kinds += ["subtract"] if not (is_unsigned(v.dtype) and v.dtype in EXACT) else []
    kinds += ["maximum", "minimum"] if not is_complex(v.dtype) else []
    if s.fits(v, v.bound + w.bound):
        s.add(s.draw(st.sampled_from(kinds)), [v, w], [s.new(v.shape, v.dtype, v.bound + w.bound)])


def _add_position(s: Scope) -> None:
    v = s.any(but=("bool",))
    axis = s.draw(st.sampled_from(list(s.mesh)))
    if v and s.fits(v, v.bound + s.mesh[axis]):
        s.add("add_position", [v], [s.new(v.shape, v.dtype, v.bound + s.mesh[axis])], axis=axis)


def _add_counter(s: Scope) -> None:
    v = s.any(but=("bool",))
    if v and s.counter and s.fits(v, v.bound + 4):
        s.add("add_counter", [v, s.counter], [s.new(v.shape, v.dtype, v.bound + 4)])


def _convert(s: Scope) -> None:
    v, dtype = s.any(), s.draw(st.sampled_from(s.types))
    assert v
    s.add("convert", [v], [s.new(v.shape, dtype, CONVERTED)], dtype=dtype, source=v.dtype)


def _transpose(s: Scope) -> None:
    v = s.any(rank=2)
    if v:
        s.add("transpose", [v], [s.new(v.shape[::-1], v.dtype, v.bound)])


def _reverse(s: Scope) -> None:
    v = s.any(rank=1)
    if v:
        s.add("reverse", [v], [s.new(v.shape, v.dtype, v.bound)])


def _flatten(s: Scope) -> None:
    v = s.any()
    assert v
    s.add("flatten", [v], [s.new((v.size,), v.dtype, v.bound)])


def _slice(s: Scope) -> None:
    v = s.any(rank=1)
    if v and v.shape[0] > 1:
        begin = s.draw(st.integers(0, min(3, v.shape[0] - 1)))
        s.add("slice", [v], [s.new((v.shape[0] - begin, *v.shape[1:]), v.dtype, v.bound)], begin=begin)


def _concatenate(s: Scope) -> None:
    v = s.any(rank=1)
    if not v:
        return
    like = [w for w in reversed(s.values) if w.dtype == v.dtype and w.shape[1:] == v.shape[1:] and w.shape]
    w = s.draw(st.sampled_from(like))
    if v.size + w.size <= MAX_ELEMENTS:
        shape = (v.shape[0] + w.shape[0], *v.shape[1:])
        s.add("concatenate", [v, w], [s.new(shape, v.dtype, max(v.bound, w.bound))])


def _divisible(s: Scope, v: Value, dimension: int, parts: int) -> Value | None:
    """`v` or, if its dimension has no equal parts, `v` repeated."""
    if v.shape[dimension] % parts == 0:
        return v
    if v.size * parts > MAX_ELEMENTS:
        return None
    shape = tuple(d * parts if i == dimension else d for i, d in enumerate(v.shape))
    return s.add("repeat", [v], [s.new(shape, v.dtype, v.bound)], dimension=dimension, times=parts)[0]


# --- collectives ---------------------------------------------------------------------------------------------------


def _participants(s: Scope, *, grouped: bool = True) -> tuple[dict[str, Any], int]:
    """Axes (and perhaps index groups) of a collective, and the number of members of a group."""
    axes = s.draw(st.permutations(s.axes))[: s.draw(st.integers(1, len(s.axes)))]
    axes = list(axes)
    members = math.prod(s.mesh[a] for a in axes)
    groups = None
    if grouped and list(s.mesh) == list(s.axes) and len(s.mesh) == 1 and s.draw(st.integers(0, 3)) == 3:
        order = s.draw(st.permutations(range(s.devices)))
        members = s.draw(st.sampled_from([k for k in range(1, s.devices + 1) if s.devices % k == 0]))
        groups = [list(order[i : i + members]) for i in range(0, s.devices, members)]
    return {"axes": axes, "groups": groups}, members


def _reduce(s: Scope) -> None:
    kind = s.draw(st.sampled_from(["psum", "pmax", "pmin"]))
    where, members = _participants(s)
    operands: list[Value] = []
    for _ in range(s.draw(st.sampled_from([1, 1, 1, 2, 3]))):
        v = s.any()
        assert v
        if v.dtype == "bool" and kind == "psum":  # JAX makes it a sum of integers
            continue
        if is_complex(v.dtype) and kind != "psum":
            continue
        if kind == "psum" and not s.fits(v, v.bound * members):
            v = s.clipped(v)
            if not s.fits(v, v.bound * members):
                continue
        operands.append(v)
    if operands:
        grown = members if kind == "psum" else 1
        s.add(kind, operands, [s.new(v.shape, v.dtype, v.bound * grown) for v in operands], **where)


def _all_gather(s: Scope) -> None:
    where, members = _participants(s)
    v, tiled = s.any(), s.draw(st.booleans())
    assert v
    if v.size * members > MAX_ELEMENTS or (tiled and not v.shape):
        return
    dim = s.draw(st.integers(0, len(v.shape) - (1 if tiled else 0)))
    if tiled:
        shape = tuple(d * members if i == dim else d for i, d in enumerate(v.shape))
    else:
        shape = (*v.shape[:dim], members, *v.shape[dim:])
    s.add("all_gather", [v], [s.new(shape, v.dtype, v.bound)], dimension=dim, tiled=tiled, **where)


def _psum_scatter(s: Scope) -> None:
    where, members = _participants(s)
    v, tiled = s.any(but=("bool",), rank=1), s.draw(st.booleans())
    if not v:
        return
    dim = s.draw(st.integers(0, len(v.shape) - 1))
    v = s.clipped(v)
    parted = _divisible(s, v, dim, members)
    if not parted or not s.fits(parted, parted.bound * members):
        return
    tiled = tiled or parted.shape[dim] != members
    kept = [parted.shape[dim] // members] if tiled else []
    shape = (*parted.shape[:dim], *kept, *parted.shape[dim + 1 :])
    result = s.new(shape, v.dtype, v.bound * members)
    s.add("psum_scatter", [parted], [result], dimension=dim, tiled=tiled, **where)


def _all_to_all(s: Scope) -> None:
    where, members = _participants(s)
    v, tiled = s.any(rank=1), s.draw(st.booleans())
    if not v:
        return
    split = s.draw(st.integers(0, len(v.shape) - 1))
    parted = _divisible(s, v, split, members)
    if not parted:
        return
    tiled = tiled or parted.shape[split] != members
    concat = s.draw(st.integers(0, len(v.shape) - 1))
    shape = list(parted.shape)
    if tiled:
        shape[split] //= members
        shape[concat] *= members
    else:
        del shape[split]
        shape.insert(concat, members)
    result = s.new(tuple(shape), v.dtype, v.bound)
    s.add("all_to_all", [parted], [result], split=split, concat=concat, tiled=tiled, **where)


def _ppermute(s: Scope) -> None:
    v = s.any()
    assert v
    # JAX 0.12 refuses axes in another order than that of the mesh.
    choices = [[a] for a in s.axes] + ([list(s.axes)] if len(s.axes) > 1 else [])
    axes = s.draw(st.sampled_from(choices))
    n = math.prod(s.mesh[a] for a in axes)
    targets = s.draw(st.permutations(range(n)))
    pairs = [[i, t] for i, t in enumerate(targets)]
    if s.draw(st.booleans()):
        pairs = [pair for pair in pairs if s.draw(st.booleans())] or pairs
    s.add("ppermute", [v], [s.new(v.shape, v.dtype, v.bound)], axes=axes, groups=None, pairs=pairs)


#: XLA:CPU widens these types, and has no rule to do so for a broadcast.
NOT_BROADCAST = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")


def _some_groups(s: Scope, *, equal: bool, all_devices: bool = True) -> list[list[int]]:
    order = s.draw(st.permutations(range(s.devices)))
    sizes = []
    left = s.devices
    if equal:
        size = s.draw(st.sampled_from([k for k in range(1, left + 1) if left % k == 0]))
        sizes = [size] * (left // size)
    while not equal and left:
        sizes.append(s.draw(st.integers(1, left)))
        left -= sizes[-1]
    groups = []
    for size in sizes:
        groups.append(list(order[:size]))
        order = order[size:]
    return groups if all_devices else groups[: s.draw(st.integers(1, len(groups)))]


def _logical(s: Scope) -> None:
    """All-reduces and reduce-scatters that JAX has no function for."""
    if len(s.axes) != len(s.mesh):
        return
    v = s.any(but=tuple(EXACT))
    if not v:
        return
    reductions = ["And", "Or", "Xor"] + (["Mul", "Min", "Max"] if v.dtype != "bool" else [])
    reduction = s.draw(st.sampled_from(reductions))
    if s.draw(st.booleans()) or not v.shape:
        groups = _some_groups(s, equal=False)
        s.add("all_reduce", [v], [s.new(v.shape, v.dtype)], groups=groups, reduction=reduction)
        return
    groups = _some_groups(s, equal=True)
    dim = s.draw(st.integers(0, len(v.shape) - 1))
    parted = _divisible(s, v, dim, len(groups[0]))
    if parted:
        shape = tuple(d // len(groups[0]) if i == dim else d for i, d in enumerate(parted.shape))
        result = s.new(shape, v.dtype)
        s.add("reduce_scatter", [parted], [result], groups=groups, reduction=reduction, dimension=dim)


def _broadcast(s: Scope) -> None:
    v = s.any(but=NOT_BROADCAST)
    if v and len(s.axes) == len(s.mesh):
        groups = _some_groups(s, equal=True, all_devices=False)  # MLIR refuses others
        s.add("broadcast", [v], [s.new(v.shape, v.dtype, v.bound)], groups=groups)


COLLECTIVES = [_reduce, _all_gather, _psum_scatter, _all_to_all, _ppermute, _logical, _broadcast]
LOCAL = [
    _add_literal,
    _scale,
    _binary,
    _add_position,
    _add_counter,
    _convert,
    _transpose,
    _reverse,
    _flatten,
    _slice,
    _concatenate,
]
