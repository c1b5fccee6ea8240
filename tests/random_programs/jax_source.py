"""A random program as Python source that uses JAX: the worker runs this text, and a finding prints it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from program_form import CONVERTED, INTEGERS, Op, Program, is_complex, is_unsigned

#: What the source of a program expects to be defined.
PREAMBLE = '''\
import jax
import jax.numpy as jnp
from jax import lax
import stablehlo_ops


def clip(x, limit):
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return lax.complex(clip(x.real, limit), clip(x.imag, limit))
    low = 0 if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else -limit
    return jnp.minimum(jnp.maximum(x, jnp.asarray(low, x.dtype)), jnp.asarray(limit, x.dtype))


def above(x, limit, axes):
    """Whether the largest first element of the devices along `axes` is above the limit."""
    return lax.pmax(x.ravel()[0].astype(jnp.float64), axes) > limit
'''


def source_of(program: Program, name: str) -> str:
    """A function of the program's inputs on one device, each with a first dimension of 1, as its results have."""
    arguments = [f"x{i}" for i in range(len(program["inputs"]))]
    lines = [f"def {name}({', '.join(arguments)}):"]
    lines += [f"    v{i} = x{i}[0]" for i in range(len(arguments))]
    for op in program["body"]:
        lines += _lines(op, "    ")
    lines.append(f"    return {_tuple(f'v{number}[None]' for number in program['results'])}")
    return "\n".join(lines) + "\n"


def _tuple(parts: Any) -> str:
    return f"({''.join(f'{part}, ' for part in parts).rstrip()})"


def _values(numbers: list[int]) -> str:
    return _tuple(f"v{number}" for number in numbers)


def _region(name: str, region: Any, indent: str, *, parameters: str) -> list[str]:
    lines = [f"{indent}def {name}({parameters}):"]
    for op in region["body"]:
        lines += _lines(op, indent + "    ")
    return [*lines, f"{indent}    return {_values(region['results'])}"]


def _parameters(region: Any) -> str:
    return ", ".join(f"v{number}" for number in region["params"])


def _lines(op: Op, indent: str) -> list[str]:
    out = ", ".join(f"v{number}" for number in op["out"])
    if op["op"] in _CONTROL:
        return _CONTROL[op["op"]](op, out, indent)
    operands = [f"v{number}" for number in op["in"]]
    if op["op"] in ("psum", "pmax", "pmin"):
        operand = operands[0] if len(operands) == 1 else _tuple(operands)
        return [f"{indent}{out} = lax.{op['op']}({operand}, {_where(op)})"]
    return [f"{indent}{out} = {_EXPRESSIONS[op['op']](op, *operands)}"]


def _axes(op: Op) -> str:
    return repr(op["axes"][0]) if len(op["axes"]) == 1 else repr(tuple(op["axes"]))


def _where(op: Op) -> str:
    return _axes(op) + ("" if op["groups"] is None else f", axis_index_groups={op['groups']}")


def _convert(op: Op, x: str) -> str:
    source, target = op["source"], op["dtype"]
    if source in INTEGERS:
        x = f"({x} % {CONVERTED + 1})"
    elif source != "bool":
        x = f"clip({x}, {CONVERTED})"
        x += ".real" if is_complex(source) and not is_complex(target) else ""
        x = f"jnp.maximum({x}, 0)" if is_unsigned(target) else x
    return f"{x} != 0" if target == "bool" else f"{x}.astype(jnp.{target})"


_EXPRESSIONS: dict[str, Callable[..., str]] = {
    "add_literal": lambda op, x: f"{x} + {op['literal']}",
    "scale": lambda op, x: f"{x} * {op['literal']}",
    "add": lambda op, x, y: f"{x} + {y}",
    "subtract": lambda op, x, y: f"{x} - {y}",
    "maximum": lambda op, x, y: f"jnp.maximum({x}, {y})",
    "minimum": lambda op, x, y: f"jnp.minimum({x}, {y})",
    "add_position": lambda op, x: f"{x} + lax.axis_index({op['axis']!r}).astype({x}.dtype)",
    "add_counter": lambda op, x, i: f"{x} + {i}.astype({x}.dtype)",
    "clip": lambda op, x: f"clip({x}, {op['limit']})",
    "convert": _convert,
    "transpose": lambda op, x: f"{x}.T",
    "reverse": lambda op, x: f"{x}[::-1]",
    "flatten": lambda op, x: f"{x}.ravel()",
    "slice": lambda op, x: f"{x}[{op['begin']}:]",
    "concatenate": lambda op, x, y: f"jnp.concatenate([{x}, {y}])",
    "repeat": lambda op, x: f"jnp.concatenate([{x}] * {op['times']}, {op['dimension']})",
    "all_gather": lambda op, x: f"lax.all_gather({x}, {_where(op)}, axis={op['dimension']}, tiled={op['tiled']})",
    "psum_scatter": lambda op, x: (
        f"lax.psum_scatter({x}, {_where(op)}, scatter_dimension={op['dimension']}, tiled={op['tiled']})"
    ),
    "all_to_all": lambda op, x: (
        f"lax.all_to_all({x}, {_axes(op)}, {op['split']}, {op['concat']}, tiled={op['tiled']}"
        + ("" if op["groups"] is None else f", axis_index_groups={op['groups']}")
        + ")"
    ),
    "ppermute": lambda op, x: f"lax.ppermute({x}, {_axes(op)}, {[tuple(pair) for pair in op['pairs']]})",
    "all_reduce": lambda op, x: f"stablehlo_ops.all_reduce({x}, {op['groups']}, {op['reduction']!r})",
    "reduce_scatter": lambda op, x: (
        f"stablehlo_ops.reduce_scatter({x}, {op['groups']}, {op['reduction']!r}, {op['dimension']})"
    ),
    "broadcast": lambda op, x: f"stablehlo_ops.broadcast({x}, {op['groups']})",
}


def _loop(op: Op, out: str, indent: str) -> list[str]:
    name = f"step{op['out'][0]}"
    counter, *params = (f"v{number}" for number in op["region"]["params"])
    lines = _region(name, op["region"], indent, parameters=", ".join([counter, *params]))
    return [
        *lines,
        f"{indent}{_open(out)} = lax.fori_loop(0, {op['steps']}, lambda i, c: {name}(i, *c), {_values(op['in'])})",
    ]


def _open(out: str) -> str:
    return f"({out},)"


def _scan(op: Op, out: str, indent: str) -> list[str]:
    name = f"step{op['out'][0]}"
    *carried, stacked = (f"v{number}" for number in op["out"])
    lines = _region(name, op["region"], indent, parameters=_parameters(op["region"]))
    step = f"lambda c, i: (lambda r: (r, r[0]))({name}(i, *c))"
    steps = f"jnp.arange({op['steps']}, dtype=jnp.int32)"
    return [*lines, f"{indent}{_tuple(carried)}, {stacked} = lax.scan({step}, {_values(op['in'])}, {steps})"]


def _while(op: Op, out: str, indent: str) -> list[str]:
    name = f"step{op['out'][0]}"
    lines = _region(name, op["region"], indent, parameters=_parameters(op["region"]))
    again = f"lambda c: (c[0] < {op['steps']}) & ~above(c[1], {op['limit']}, {_axes(op)})"
    step = f"lambda c: (c[0] + 1, *{name}(*c[1:]))"
    first = _tuple(["jnp.int32(0)", *(f"v{number}" for number in op["in"])])
    return [*lines, f"{indent}_, {out} = lax.while_loop({again}, {step}, {first})"]


def _branches(op: Op, out: str, indent: str, choice: str, operands: list[int]) -> list[str]:
    lines, names = [], []
    for kind, region in zip(("no", "yes"), op["branches"], strict=True):
        names.append(f"{kind}{op['out'][0]}")
        lines += _region(names[-1], region, indent, parameters=_parameters(region))
    arguments = ", ".join(f"v{number}" for number in operands)
    return [*lines, f"{indent}{_open(out)} = lax.cond({choice}, {names[1]}, {names[0]}, {arguments})"]


def _cond(op: Op, out: str, indent: str) -> list[str]:
    choice = f"above(v{op['in'][0]}, {op['limit']}, {_axes(op)})"
    return _branches(op, out, indent, choice, op["in"][1:])


def _cond_row(op: Op, out: str, indent: str) -> list[str]:
    return _branches(op, out, indent, f"lax.axis_index({op['row']!r}) > 0", op["in"])


def _call(op: Op, out: str, indent: str) -> list[str]:
    name = f"called{op['out'][0]}"
    lines = _region(name, op["region"], indent, parameters=_parameters(op["region"]))
    lines.insert(0, f"{indent}@jax.jit")
    text = _values(op["in"])
    for _ in range(op["times"]):
        text = f"{name}(*{text})"
    return [*lines, f"{indent}{_open(out)} = {text}"]


_CONTROL: dict[str, Callable[[Op, str, str], list[str]]] = {
    "fori_loop": _loop,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "cond_row": _cond_row,
    "call": _call,
}
