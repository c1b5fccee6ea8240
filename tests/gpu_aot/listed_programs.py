"""Programs of the ops that `XLA_SHMEM_OPS` has to list; the form of each is that of `programs.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from programs import DEVICES, RING, W, X, Y, alone, in_a_loop, line, on_devices, overlap

Program = tuple[Any, Sequence[jax.ShapeDtypeStruct]]
#: Rows like those of X, and twice as many.
TWICE = ((2 * X[0][0], X[0][1]), X[1], X[2])
LISTED: dict[str, Callable[[Sequence[Any]], Program]] = {}

#: Each op as JAX calls it, on an array whose first dimension is divided among the devices.
OPS: dict[str, Callable[[Any], Any]] = {
    "all_gather": lambda x: lax.all_gather(x, "x", tiled=True),
    "reduce_scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
    "broadcast": lambda x: lax.pbroadcast(x, "x", 3),
}


def _ragged(x: Any) -> Any:
    """Each device sends as many rows to every one."""
    rows = x.shape[0] // DEVICES
    starts, sizes = jnp.arange(DEVICES) * rows, jnp.full(DEVICES, rows)
    targets = jnp.full(DEVICES, lax.axis_index("x") * rows)
    return lax.ragged_all_to_all(x, x * 0, starts, sizes, targets, sizes, axis_name="x")


EVERY_OP = OPS | {"ragged_all_to_all": _ragged}
_OUT = {op: P() if op == "all_gather" else P("x") for op in EVERY_OP}


#: XLA moves work between start and done of a ragged all-to-all only with this scheduler.
_HIDE_LATENCY = {"compiler_options": {"xla_gpu_enable_latency_hiding_scheduler": True}}


def _add(
    name: str,
    mesh: Callable[[Sequence[Any]], Mesh],
    body: Callable[..., Any],
    shapes: Any,
    out: Any,
    **options: Any,
) -> None:
    LISTED[name] = lambda devices: on_devices(name, mesh(devices), body, shapes, out, **options)


def _in_a_branch(op: Callable[[Any], Any]) -> Callable[..., Any]:
    def body(flag: Any, x: Any) -> Any:
        return lax.cond(flag[0], lambda x: jnp.sum(op(x * 2), 0), lambda x: x[0] + 1, x) * 3

    return body


for _name, _op in EVERY_OP.items():
    _options = {} if _name in OPS else _HIDE_LATENCY
    _add(f"{_name}_overlap", line, overlap(_op), [X, W], (_OUT[_name], P("x")), **_options)
    _add(f"{_name}_alone", line, alone(_op), [X], _OUT[_name])
    _add(f"{_name}_in_a_loop", line, in_a_loop(_op), [X], P("x"))
    _add(f"{_name}_in_a_branch", line, _in_a_branch(_op), [((1,), jnp.bool_, P()), X], P())


def _combined(op: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, y, w: (op(x), op(y), x @ w)


# XLA combines these two ops, and no other.
for _name in ("all_gather", "reduce_scatter"):
    _add(f"{_name}s_combined", line, _combined(OPS[_name]), [X, Y, W], (_OUT[_name], _OUT[_name], P("x")))


# XLA chooses layouts in which the dimension is the most major one.
_add("all_gather_columns", line, lambda x: lax.all_gather(x * 2, "x", axis=1, tiled=True) + 1, [X], P())
_add(
    "reduce_scatter_columns",
    line,
    lambda x: lax.psum_scatter(x * 2, "x", scatter_dimension=1, tiled=True) + 1,
    [X],
    P("x"),
)
_add("all_to_all_columns", line, lambda x: lax.all_to_all(x * 2, "x", 1, 0, tiled=True) + 1, [X], P("x"))


def _square(devices: Sequence[Any]) -> Mesh:
    return Mesh(np.array(devices).reshape(2, 4), ("a", "b"))


def _axes(x: Any) -> Any:
    gathered = lax.all_gather(x, "a", tiled=True)
    scattered = lax.psum_scatter(x * 3, "b", tiled=True)
    return gathered, scattered, lax.all_to_all(x + 1, "b", 0, 0, tiled=True), lax.pbroadcast(x + 2, "a", 1)


_add(
    "mesh_axes",
    _square,
    _axes,
    [((4096, 1024), jnp.bfloat16, P(("a", "b")))],
    (P("b"), P(("a", "b")), P(("a", "b")), P(("a", "b"))),
)


def _types(flags: Any, small: Any, numbers: Any, bits: Any) -> Any:
    return (
        lax.pmax(flags, "x"),
        lax.psum(small, "x"),
        lax.psum_scatter(numbers, "x", tiled=True),
        lax.all_gather(bits, "x", tiled=True),
    )


#: Types that few collectives have: all arrive at the hook as they are, but 4-bit integers as bytes.
_TYPES = [((64, 8), dtype, P("x")) for dtype in (jnp.bool_, jnp.float8_e4m3fn, jnp.complex64, jnp.int4)]
_add("rare_types", line, _types, _TYPES, (P(), P(), P("x"), P()))


def _listed(build: Callable[[Sequence[Any]], Program]) -> None:
    LISTED[build.__name__] = build


@_listed
def fully_sharded(devices: Sequence[Any]) -> Program:
    """No collective in the user's code: gradients of weights that are divided, as in FSDP."""
    mesh = line(devices)
    divided = NamedSharding(mesh, P("x"))

    def fully_sharded(x: Any, v: Any, w: Any) -> Any:
        return jax.grad(lambda v, w: jnp.sum((jnp.tanh(x @ v) @ w).astype(jnp.float32) ** 2), (0, 1))(v, w)

    arguments = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=divided)
        for shape in ((4096, 1024), (1024, 1024), (1024, 1024))
    ]
    return jax.jit(fully_sharded, out_shardings=(divided, divided)), arguments


@_listed
def resharded(devices: Sequence[Any]) -> Program:
    """No collective in the user's code: rows become columns."""
    mesh = line(devices)

    def resharded(x: Any) -> Any:
        return x * 2

    argument = jax.ShapeDtypeStruct((4096, 1024), jnp.bfloat16, sharding=NamedSharding(mesh, P("x")))
    return jax.jit(resharded, out_shardings=NamedSharding(mesh, P(None, "x"))), [argument]


@_listed
def gather_beside_a_permute(devices: Sequence[Any]) -> Program:
    """Two ops at once beside a matmul."""

    def body(x: Any, y: Any, w: Any) -> Any:
        return lax.all_gather(x, "x", tiled=True), lax.ppermute(y, "x", RING), x @ w

    return on_devices("gather_beside_a_permute", line(devices), body, [X, Y, W], (P(), P("x"), P("x")))


@_listed
def ragged_all_to_all_of_slices(devices: Sequence[Any]) -> Program:
    def body(x: Any, y: Any, *sizes: Any) -> Any:
        return lax.ragged_all_to_all(x, y, *(size[0] for size in sizes), axis_name="x")

    sizes = [((len(devices), 3 * len(devices)), jnp.int32, P("x"))] * 4
    return on_devices("ragged_all_to_all_of_slices", line(devices), body, [X, TWICE, *sizes], P("x"))
