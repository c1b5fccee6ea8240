"""A rank of a job that a launcher's environment describes: runs a sum and a permute and reports their compilation.

Argument: the cluster detection method for JAX; without it JAX detects the cluster itself.
"""

from __future__ import annotations

import os
import re
import sys

import jax


def main() -> None:
    method = {"cluster_detection_method": sys.argv[1]} if len(sys.argv) > 1 else {}
    jax.distributed.initialize(**method)
    import numpy as np
    from case_world import World
    from jax import lax
    from job_runs import report

    world = World()
    values = np.arange(world.n * 8, dtype=np.int32).reshape(world.n, 8)
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]
    function = world.shard_map(lambda x: lax.psum(x, "x") + lax.ppermute(x, "x", pairs))
    operand = world.put(values)
    text = function.lower(operand).compile().as_text()
    world.equals(function(operand), values.sum(0, dtype=np.int32) + np.roll(values, 1, 0))
    os.environ["XLA_SHMEM_LOCAL_RANK"] = str(world.rank)  # names the report
    report(
        {"ranks": world.ranks, "lowered": len(re.findall(r'custom_call_target="xla_shmem\.(?!(?:begin|end)")', text))}
    )


if __name__ == "__main__":
    main()
