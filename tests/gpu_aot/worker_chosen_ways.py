"""Compiles programs for eight described GPUs of one process, and writes each executable beside XLA's dumps.

Usage: worker_chosen_ways.py FOLDER WAYS. WAYS: the fastest way of each op in the tuning table, as JSON. XLA_FLAGS are
the caller's. The records go to FOLDER/records.json, by program.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from programs import DEVICES, line

from gpu_compile.described_gpus import described_gpus
from xla_shmem import _core, options
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
    return lax.cond(x[0, 0] > 0, lambda x: gather(x), lambda x: jnp.zeros((x.shape[0] * DEVICES, x.shape[1])), x)


X = (DEVICES * 16, 256)
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


def _table(path: Path, ways: dict[str, str]) -> None:
    def times(us: float) -> Measured:
        return Measured(us, us * 0.9, us * 1.1, 9)

    rows = [TunedRow(op, "f32", 8, 4096, times(50), times(50), 1, {way: times(5)}) for op, way in ways.items()]
    here = fingerprint.fingerprint(vars(options.resolve({}, {})), "gpu")
    save(path, Table("gpu", here, {}, tuple(rows)), complete=True)


def main(folder: str, ways: str) -> None:
    table = Path(folder) / "table.json"
    _table(table, json.loads(ways))
    os.environ |= {"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": str(table)}
    records: dict[str, Any] = {}

    def observe(module: bytes, found: list[Any]) -> None:
        records[_core.module_header(module)["name"].removeprefix("jit_")] = found

    mesh = line(described_gpus(DEVICES, "h100", observe, devices_per_process=DEVICES))
    for name, (body, shapes) in PROGRAMS.items():
        specs = tuple(P("x") if len(shape) == 2 else P(None, "x") for shape in shapes)
        mapped = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("x"), check_vma=False)
        mapped.__name__ = name
        arguments = [
            jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
            for shape, spec in zip(shapes, specs, strict=True)
        ]
        step = jax.jit(mapped, donate_argnums=(0,) if name == "donated" else ())
        executable = step.lower(*arguments).compile().runtime_executable()
        (Path(folder) / f"{name}.executable").write_bytes(executable.serialize())
    (Path(folder) / "records.json").write_text(json.dumps(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
