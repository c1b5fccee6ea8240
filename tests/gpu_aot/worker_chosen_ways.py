"""Compiles programs for eight described GPUs of one process, and writes each executable beside XLA's dumps.

Usage: worker_chosen_ways.py FOLDER WAYS. WAYS: the fastest way of each op in the tuning table, as JSON. XLA_FLAGS are
the caller's. The records go to FOLDER/records.json, by program.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from gathering_programs import PROGRAMS, jitted, specs_of, write_table
from jax.sharding import NamedSharding
from programs import DEVICES, line

from gpu_compile.described_gpus import described_gpus
from xla_shmem import _core


def main(folder: str, ways: str) -> None:
    table = Path(folder) / "table.json"
    write_table(table, json.loads(ways), DEVICES)
    os.environ |= {"XLA_SHMEM_PROFILE": "tuned", "XLA_SHMEM_TUNING": str(table)}
    records: dict[str, Any] = {}

    def observe(module: bytes, found: list[Any]) -> None:
        records[_core.module_header(module)["name"].removeprefix("jit_")] = found

    mesh = line(described_gpus(DEVICES, "h100", observe, devices_per_process=DEVICES))
    for name, (_, shapes) in PROGRAMS.items():
        arguments = [
            jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
            for shape, spec in zip(shapes, specs_of(name), strict=True)
        ]
        executable = jitted(name, mesh).lower(*arguments).compile().runtime_executable()
        (Path(folder) / f"{name}.executable").write_bytes(executable.serialize())
    (Path(folder) / "records.json").write_text(json.dumps(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
