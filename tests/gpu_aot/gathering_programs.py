"""Programs of all-gathers and sums, and a tuning table by which XLA runs them in given ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from xla_shmem import options
from xla_shmem.options import fingerprint
from xla_shmem.options.tuning_table import Measured, Table, TunedRow, save


def gather(x: Any) -> Any:
    return lax.all_gather(x, "x", tiled=True)


def _scanned(x: Any, weights: Any) -> Any:
    """Gathers a layer's weights in each step, as FSDP does; the weights are the loop's, and the caller's."""

    def step(x: Any, layer: Any) -> tuple[Any, None]:
        return jnp.tanh(x @ gather(layer)), None

    return lax.scan(step, x, weights)[0]


def _repeated(x: Any) -> Any:
    """What is gathered is the same in every step."""
    return lax.fori_loop(0, 3, lambda i, total: total + jnp.sum(gather(x)) * i, jnp.float32(0))[None]


def _branch(x: Any) -> Any:
    return lax.cond(
        x[0, 0] > 0, lambda x: gather(x), lambda x: jnp.zeros((x.shape[0] * lax.axis_size("x"), x.shape[1])), x
    )


#: By name: the body, and the shapes of its arguments. A number of two axes is sharded over the first, one of three over
#: the second.
X = (128, 256)
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "alone": (gather, [X]),
    "between": (lambda x: gather(x * 2) * 3, [X]),
    "kept": (lambda x: (gather(x * 2), x * 2, gather(x * 2)[:8]), [X]),
    "scanned": (_scanned, [X, (4, 256, 256)]),
    "repeated": (_repeated, [X]),
    "branch": (_branch, [X]),
    "donated": (lambda x: (gather(x), x + 1), [X]),
    "reduced": (lambda x: lax.psum(x * 2, "x") + 1, [X]),
    "reduced_alone": (lambda x: lax.psum(x, "x"), [X]),
}


def specs_of(name: str) -> tuple[P, ...]:
    """How a program's arguments are sharded."""
    return tuple(P("x") if len(shape) == 2 else P(None, "x") for shape in PROGRAMS[name][1])


def jitted(name: str, mesh: Mesh) -> Any:
    """Returns the program, sharded over the mesh's axis ``x``."""
    mapped = jax.shard_map(PROGRAMS[name][0], mesh=mesh, in_specs=specs_of(name), out_specs=P("x"), check_vma=False)
    mapped.__name__ = name
    return jax.jit(mapped, donate_argnums=(0,) if name == "donated" else ())


def write_table(path: Path, ways: Mapping[str, str], group: int) -> None:
    """Writes a table of this machine, by which these ways are the fastest of each op, for groups of so many devices."""

    def times(us: float) -> Measured:
        return Measured(us, us * 0.9, us * 1.1, 9)

    rows = [TunedRow(op, "f32", group, 4096, times(50), times(50), 1, {way: times(5)}) for op, way in ways.items()]
    here = fingerprint.fingerprint(vars(options.resolve({}, {})), "gpu")
    save(path, Table("gpu", here, {}, tuple(rows)), complete=True)
