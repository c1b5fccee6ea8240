"""Runs four collectives, compares them with NumPy, and reports the backend of each, and the rule that chose it.

Arguments: changes to the environment of single ranks, as JSON (`{"1": {"XLA_SHMEM_TUNING": ""}}`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

RANK = os.environ.get("XLA_SHMEM_LOCAL_RANK", "0")


def main() -> None:
    import jax
    import numpy as np
    from case_world import World
    from jax import lax
    from job_runs import report

    from xla_shmem import _core

    jax.distributed.initialize()
    world = World()
    n = world.n
    ring = [(i, (i + 1) % n) for i in range(n)]

    def backend_of(name: str, function: Callable[[Any], Any], width: int, expected: Callable[[Any], Any]) -> None:
        values = np.arange(n * width, dtype=np.float32).reshape(n, width)
        operand = world.put(values)
        program = world.shard_map(function)
        (module,) = program.lower(operand).compile().runtime_executable().hlo_modules()
        (record,) = _core.inspect_module(module.as_serialized_hlo_module_proto())
        world.equals(program(operand), expected(values))
        report({"name": name, **{key: record[key] for key in ("lowered", "rule", "reason", "veto")}})

    def summed(values: Any) -> Any:
        return np.broadcast_to(values.sum(0), values.shape)

    def shifted(values: Any) -> Any:
        return np.roll(values, 1, 0)

    backend_of("small sum", lambda x: lax.psum(x, "x"), 16, summed)
    backend_of("large sum", lambda x: lax.psum(x, "x"), 1 << 16, summed)
    backend_of("permute", lambda x: lax.ppermute(x, "x", ring), 16, shifted)
    backend_of("gather", lambda x: lax.all_gather(x, "x", tiled=True), 16, lambda values: np.tile(values, (n, 1)))


if __name__ == "__main__":
    os.environ.update(json.loads(sys.argv[1]).get(RANK, {}))
    main()
