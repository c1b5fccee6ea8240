"""What a random program computes, with NumPy, for all devices at once. The first dimension of a value is the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from program_form import CONVERTED, INTEGERS, Op, Program, dtype_of, input_values, is_complex, is_unsigned

Values = dict[int, np.ndarray]


def _maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(x, y).astype(x.dtype)  # NumPy makes 8-bit integers of 4-bit ones


def _minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.minimum(x, y).astype(x.dtype)


_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "psum": np.add,
    "pmax": _maximum,
    "pmin": _minimum,
    "Mul": np.multiply,
    "Min": _minimum,
    "Max": _maximum,
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "Xor": np.bitwise_xor,
}


def results_of(program: Program, seed: int) -> list[np.ndarray]:
    """The results of a program, of shape (devices of its mesh, *shape)."""
    mesh = dict(zip(program["axes"], program["shape"], strict=True))
    inputs = inputs_of(program, seed)
    values = dict(enumerate(inputs))
    _Interpreter(mesh).run(program["body"], values)
    return [values[number] for number in program["results"]]


def inputs_of(program: Program, seed: int) -> list[np.ndarray]:
    """Its inputs, of shape (devices of its mesh, *shape)."""
    devices = math.prod(program["shape"])
    return [input_values(shape, dtype, devices, 100 * seed + i) for i, (shape, dtype) in enumerate(program["inputs"])]


def _like(number: int, array: np.ndarray) -> np.ndarray:
    return np.asarray(number).astype(array.dtype)


def _clip(x: np.ndarray, limit: int) -> np.ndarray:
    if np.iscomplexobj(x):
        return (_clip(x.real, limit) + 1j * _clip(x.imag, limit)).astype(x.dtype)
    low = _like(0 if is_unsigned(x.dtype.name) else -limit, x)
    return _minimum(_maximum(x, low), _like(limit, x))


def _convert(x: np.ndarray, op: Op) -> np.ndarray:
    source, target = op["source"], op["dtype"]
    if source in INTEGERS:
        x = x % _like(CONVERTED + 1, x)
    elif source != "bool":
        x = _clip(x, CONVERTED)
        x = x.real if is_complex(source) and not is_complex(target) else x
        x = _maximum(x, _like(0, x)) if is_unsigned(target) else x
    if target == "bool":
        return x != 0
    # ml_dtypes does not convert types of four bits into each other.
    return (x.astype(np.int8) if source in ("int4", "uint4") else x).astype(dtype_of(target))


class _Interpreter:
    def __init__(self, mesh: dict[str, int]) -> None:
        self._mesh = mesh
        self._devices = math.prod(mesh.values())

    def run(self, body: list[Op], values: Values) -> None:
        for op in body:
            operands = [values[number] for number in op["in"]]
            results = getattr(self, f"_{op['op']}", self._reduction)(op, operands, values)
            for number, result in zip(op["out"], results, strict=True):
                values[number] = result

    # --- one device ---

    def _add_literal(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0] + _like(op["literal"], x[0])]

    def _scale(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0] * _like(op["literal"], x[0])]

    def _add(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0] + x[1]]

    def _subtract(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0] - x[1]]

    def _maximum(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [_maximum(x[0], x[1])]

    def _minimum(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [_minimum(x[0], x[1])]

    def _add_position(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0] + self._position(op["axis"], x[0].ndim).astype(x[0].dtype)]

    def _add_counter(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0] + x[1].reshape(-1, *[1] * (x[0].ndim - 1)).astype(x[0].dtype)]

    def _clip(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [_clip(x[0], op["limit"])]

    def _convert(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [_convert(x[0], op)]

    def _transpose(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0].transpose(0, *range(x[0].ndim - 1, 0, -1))]

    def _reverse(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0][:, ::-1]]

    def _flatten(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0].reshape(self._devices, -1)]

    def _slice(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [x[0][:, op["begin"] :]]

    def _concatenate(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [np.concatenate(x, 1)]

    def _repeat(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [np.concatenate([x[0]] * op["times"], 1 + op["dimension"])]

    # --- collectives ---

    def _groups(self, op: Op) -> list[list[int]]:
        if op["groups"] is not None:
            return [list(group) for group in op["groups"]]
        devices = np.arange(self._devices).reshape(list(self._mesh.values()))
        names = list(self._mesh)
        first = [i for i, name in enumerate(names) if name not in op["axes"]]
        last = [names.index(name) for name in op["axes"]]
        members = math.prod(self._mesh[name] for name in op["axes"])
        return [list(map(int, group)) for group in devices.transpose(*first, *last).reshape(-1, members)]

    def _of_each(self, op: Op, x: np.ndarray, part: Callable[[list[np.ndarray], int], np.ndarray]) -> np.ndarray:
        """`part` of the blocks of a group, in its order, and a member's place in it; zeros outside of all groups."""
        found = {g: part([x[i] for i in group], k) for group in self._groups(op) for k, g in enumerate(group)}
        nothing = np.zeros_like(next(iter(found.values())))
        return np.stack([found.get(i, nothing) for i in range(self._devices)])

    def _reduction(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        combine = _REDUCTIONS[op.get("reduction", op["op"])]
        return [self._of_each(op, y, lambda blocks, k: reduce(combine, blocks)) for y in x]

    def _all_gather(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        join = np.concatenate if op["tiled"] else np.stack
        return [self._of_each(op, x[0], lambda blocks, k: join(blocks, axis=op["dimension"]))]

    def _psum_scatter(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [self._scattered(op, x[0], np.add, op["tiled"])]

    def _reduce_scatter(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [self._scattered(op, x[0], _REDUCTIONS[op["reduction"]], True)]

    def _scattered(self, op: Op, x: np.ndarray, combine: Any, tiled: bool) -> np.ndarray:
        dim = op["dimension"]

        def part(blocks: list[np.ndarray], k: int) -> np.ndarray:
            total = np.split(reduce(combine, blocks), len(blocks), dim)[k]
            return total if tiled else total.squeeze(dim)

        return self._of_each(op, x, part)

    def _all_to_all(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        split, concat = op["split"], op["concat"]

        def part(blocks: list[np.ndarray], k: int) -> np.ndarray:
            mine = [np.split(block, len(blocks), split)[k] for block in blocks]
            return np.concatenate(mine, concat) if op["tiled"] else np.stack([m.squeeze(split) for m in mine], concat)

        return [self._of_each(op, x[0], part)]

    def _ppermute(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        sources = {target: source for source, target in op["pairs"]}

        def part(blocks: list[np.ndarray], k: int) -> np.ndarray:
            return blocks[sources[k]] if k in sources else np.zeros_like(blocks[k])

        return [self._of_each(op, x[0], part)]

    def _broadcast(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return [self._of_each(op, x[0], lambda blocks, k: blocks[0])]

    # --- control flow ---

    def _call_region(self, region: Any, arguments: list[np.ndarray], values: Values) -> list[np.ndarray]:
        inner = dict(values)
        inner.update(zip(region["params"], arguments, strict=True))
        self.run(region["body"], inner)
        return [inner[number] for number in region["results"]]

    def _fori_loop(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        return self._scan(op, x, values)[:-1]

    def _scan(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        stacked = []
        for i in range(op["steps"]):
            x = self._call_region(op["region"], [np.full(self._devices, i, np.int32), *x], values)
            stacked.append(x[0])
        return [*x, np.stack(stacked, 1)]

    def _position(self, axis: str, dimensions: int) -> np.ndarray:
        index = np.indices(list(self._mesh.values()))[list(self._mesh).index(axis)]
        return index.reshape(-1, *[1] * (dimensions - 1))

    def _tested(self, op: Op, x: np.ndarray) -> np.ndarray:
        """For each device, whether the largest first element of its group is above the limit."""
        first = x.reshape(self._devices, -1)[:, :1].astype(np.float64)
        where = {"axes": op["axes"], "groups": None}
        return self._of_each(where, first, lambda blocks, k: reduce(np.maximum, blocks))[:, 0] > op["limit"]

    def _chosen(self, choice: np.ndarray, yes: list[np.ndarray], no: list[np.ndarray]) -> list[np.ndarray]:
        return [
            np.stack([(a if take else b)[i] for i, take in enumerate(choice)]) for a, b in zip(yes, no, strict=True)
        ]

    def _while(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        for _ in range(op["steps"]):
            again = ~self._tested(op, x[0])
            if not again.any():
                break
            # Groups that have ended compute too, and their results are not taken.
            x = self._chosen(again, self._call_region(op["region"], x, values), x)
        return x

    def _cond(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        no, yes = (self._call_region(branch, x[1:], values) for branch in op["branches"])
        return self._chosen(self._tested(op, x[0]), yes, no)

    def _cond_row(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        no, yes = (self._call_region(branch, x, values) for branch in op["branches"])
        return self._chosen(self._position(op["row"], 1) > 0, yes, no)

    def _call(self, op: Op, x: list[np.ndarray], values: Values) -> list[np.ndarray]:
        for _ in range(op["times"]):
            x = self._call_region(op["region"], x, values)
        return x
