"""Compiles collectives under profile `tuned` on emulated GPUs, reports the backend of each, and runs those on SHMEM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from case_world import World
from jax import lax
from job_runs import report

from xla_shmem import _core


def main() -> None:
    jax.distributed.initialize()
    world = World()
    ring = [(i, (i + 1) % world.n) for i in range(world.n)]

    def decided(name: str, function: Callable[[Any], Any], width: int, expected: Callable[[Any], Any]) -> None:
        values = np.arange(world.n * width, dtype=np.float32).reshape(world.n, width)
        operand = world.put(values)
        program = world.shard_map(function)
        compiled = program.lower(operand).compile()
        (module,) = compiled.runtime_executable().hlo_modules()
        (record,) = _core.inspect_module(module.as_serialized_hlo_module_proto())
        if record["lowered"] == "NVSHMEM":
            world.equals(compiled(operand), expected(values))
        report({"name": name, **{key: record[key] for key in ("lowered", "rule", "reason", "veto")}})

    decided("small permute", lambda x: lax.ppermute(x, "x", ring), 16, lambda values: np.roll(values, 1, 0))
    decided("large permute", lambda x: lax.ppermute(x, "x", ring), 2048, lambda values: np.roll(values, 1, 0))
    decided("gather", lambda x: lax.all_gather(x, "x", tiled=True), 16, lambda values: np.tile(values, (world.n, 1)))


if __name__ == "__main__":
    main()
