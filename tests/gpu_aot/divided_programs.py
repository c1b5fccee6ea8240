"""Programs whose collectives cross two NVLink domains of eight GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from programs import Program, W, X, alone, in_a_loop, line, on_devices, overlap

DEVICES = 16
DIVIDED: dict[str, Callable[[Sequence[Any]], Program]] = {}

#: Each op as JAX calls it, on an array whose first dimension is divided among the devices.
OPS: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda x: lax.psum(x, "x"),
    "all_gather": lambda x: lax.all_gather(x, "x", tiled=True),
    "reduce_scatter": lambda x: lax.psum_scatter(x, "x", tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True),
    "broadcast": lambda x: lax.pbroadcast(x, "x", 3),
    "permute": lambda x: lax.ppermute(x, "x", [(i, (i + 1) % DEVICES) for i in range(DEVICES)]),
}
_OUT = {op: P() if op in ("all_gather", "all_reduce") else P("x") for op in OPS}


def _add(name: str, body: Callable[..., Any], shapes: Any, out: Any, mesh: Any = line) -> None:
    DIVIDED[name] = lambda devices: on_devices(name, mesh(devices), body, shapes, out)


for _name, _op in OPS.items():
    _add(f"{_name}_across_overlap", overlap(_op), [X, W], (_OUT[_name], P("x")))
    _add(f"{_name}_across_alone", alone(_op), [X], _OUT[_name])
    _add(f"{_name}_across_in_a_loop", in_a_loop(_op), [X], P("x"))


def _table(devices: Sequence[Any]) -> Mesh:
    return Mesh(np.array(devices).reshape(2, 2, 4), ("host", "half", "b"))


def _axes(x: Any) -> Any:
    """Groups over parts of both domains: four devices of each, and the columns in the other order."""
    return lax.psum(x, ("host", "b")), lax.all_gather(x * 2, ("b", "host"), tiled=True)


_add("groups_across", _axes, [((4096, 1024), jnp.bfloat16, P(("host", "half", "b")))], (P("half"), P("half")), _table)


def combined_across(devices: Sequence[Any]) -> Program:
    """Sums of arrays that eight does not divide, which XLA makes one all-reduce."""

    def body(x: Any, y: Any, w: Any) -> Any:
        return lax.psum(x, "x"), lax.psum(jnp.sum(y), "x"), x @ w

    shapes = [((16 * 13, 1024), jnp.float32, P("x")), ((16, 8), jnp.float32, P("x")), ((1024, 64), jnp.float32, P())]
    return on_devices("combined_across", line(devices), body, shapes, (P(), P(), P("x")))


def trained_across(devices: Sequence[Any]) -> Program:
    """Data-parallel gradients, with the parameters given back in their memory."""

    def trained_across(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.sum(jnp.tanh(x @ w) ** 2)

        return w - 0.1 * lax.psum(jax.grad(loss)(w), "x")

    shapes = [((1024, 1000), jnp.float32, P()), ((4096, 1024), jnp.float32, P("x"))]
    return on_devices("trained_across", line(devices), trained_across, shapes, P(), donate_argnums=0)


DIVIDED |= {"combined_across": combined_across, "trained_across": trained_across}
