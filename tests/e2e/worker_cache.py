"""Runs one program on meshes of several orders and reports the origin of its executables.

Arguments: the cache directory (`{rank}` in it stands for the rank), and the mesh orders, such as `01 10`.
"""

from __future__ import annotations

import os
import re
import sys

import jax

EVENTS: list[str] = []


def _note(event: str, **_: object) -> None:
    for word in ("hits", "misses"):
        if event == f"/jax/compilation_cache/cache_{word}":
            EVENTS.append(word)


def main() -> None:
    import cases_permute
    import numpy as np
    from case_world import World
    from jax import lax
    from job_runs import report

    jax.monitoring.register_event_listener(_note)
    jax.distributed.initialize()
    world = World()
    values = np.arange(world.n * 5, dtype=np.int32).reshape(world.n, 5) ** 2
    pairs = cases_permute.ring(world.n)[:-1]
    outcome: dict[str, object] = {}
    for order in sys.argv[2:]:
        mesh = world.mesh_of([int(digit) for digit in order])
        operand = world.put(values, mesh=mesh)
        function = world.shard_map(
            lambda x: (lax.ppermute(x, "x", pairs), lax.psum(x * (1 + lax.axis_index("x")), "x")), mesh=mesh
        )
        EVENTS.clear()
        lowered = len(
            re.findall(
                r'custom_call_target="xla_shmem\.(?!(?:begin|end)")', function.lower(operand).compile().as_text()
            )
        )
        for _ in range(3):
            shifted, total = function(operand)
            world.equals(shifted, cases_permute.permuted(values, pairs))
            weighted = values * np.arange(1, world.n + 1, dtype=np.int32)[:, None]
            world.equals(total, np.broadcast_to(weighted.sum(0, dtype=np.int32), values.shape))
        outcome[order] = {"from": EVENTS[0] if EVENTS else "compiled", "lowered": lowered}
    report(outcome)


if __name__ == "__main__":
    jax.config.update("jax_compilation_cache_dir", sys.argv[1].format(rank=os.environ["XLA_SHMEM_LOCAL_RANK"]))
    # The paths of XLA's own caches would make keys differ between directories and between ranks.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    main()
