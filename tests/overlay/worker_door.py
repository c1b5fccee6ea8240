"""Runs a program with several ops three times, and reports what ran on NVSHMEM, by executables from several origins.

Arguments: the origin: `compiled`, `reloaded` (serialised and loaded again) or the folder of a compilation cache; the
element type; and the ops, by the names of their functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from case_world import World
from executed_collectives import Executions, expected_of, left_on_nccl
from jax import lax
from jax.experimental import serialize_executable
from job_runs import report

EVENTS: list[str] = []


def _note(event: str, **_: object) -> None:
    if event.startswith("/jax/compilation_cache/cache_"):
        EVENTS.append(event.rpartition("_")[2])


def _operations(n: int) -> dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]]:
    """Each op of a row per device, and the whole of its results."""
    ring = [(k, (k + 1) % n) for k in range(n)]
    return {
        "psum": (lambda x: lax.psum(x, "x"), lambda v: np.broadcast_to(v.sum(0), v.shape)),
        "ppermute": (lambda x: lax.ppermute(x, "x", ring), lambda v: np.roll(v, 1, 0)),
        "all_gather": (
            lambda x: lax.all_gather(x, "x", axis=1, tiled=True),
            lambda v: np.tile(v.reshape(1, -1), (n, 1)),
        ),
        "psum_scatter": (
            lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
            lambda v: v.sum(0).reshape(n, -1),
        ),
        "all_to_all": (
            lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True).reshape(1, -1),
            lambda v: v.reshape(n, n, -1).swapaxes(0, 1).reshape(n, -1),
        ),
    }


def main() -> None:
    origin, dtype, *ops = sys.argv[1:]
    jax.monitoring.register_event_listener(_note)
    executions = Executions()
    jax.distributed.initialize()
    world = World()
    chosen = {op: both for op, both in _operations(world.n).items() if op in ops}
    values = (np.arange(world.n * 4 * world.n).reshape(world.n, -1) % 23).astype(dtype)
    operand = world.put(values)
    function = world.shard_map(lambda x: [run(x * 2) for run, _ in chosen.values()])
    EVENTS.clear()
    compiled = function.lower(operand).compile()
    text = compiled.as_text()
    if origin == "reloaded":
        compiled = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
    for _ in range(3):
        for (_, expected), result in zip(chosen.values(), compiled(operand), strict=True):
            world.equals(result, expected(values * 2).astype(dtype))
    captured, in_graphs = executions.in_graphs()
    report(
        {
            "left": sorted(left_on_nccl(text)),
            "announced": 3 * expected_of(text).least,
            # A captured call does not run.
            "ran": executions.count - captured + in_graphs,
            "in_graphs": in_graphs,
            "events": EVENTS,
        }
    )


if __name__ == "__main__":
    if sys.argv[1].startswith("/"):
        jax.config.update("jax_compilation_cache_dir", sys.argv[1])
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    main()
