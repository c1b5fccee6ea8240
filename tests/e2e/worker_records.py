"""Three runs of a sum and a permute, and one more.

Argument: `die`, rank 1 kills itself before the last run; `other`, the ranks run different programs there; `done`,
nothing fails; `interrupt`, as after Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    import jax
    import numpy as np
    from case_world import World
    from jax import lax

    jax.distributed.initialize()
    world = World()
    pairs = [(i, (i + 1) % world.n) for i in range(world.n)]
    operand = world.put(np.arange(world.n * 8, dtype=np.float32).reshape(world.n, 8))
    step = world.shard_map(lambda x: lax.psum(x, "x") + lax.ppermute(x, "x", pairs))
    for _ in range(3):
        jax.block_until_ready(step(operand))
    odd = jax.process_index() == 1
    if sys.argv[1] == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if sys.argv[1] == "die" and odd:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "other":
        factor = 2.0 if odd else 3.0
        step = world.shard_map(lambda x: lax.psum(x * factor, "x") if odd else lax.pmax(x + factor, "x"))
    jax.block_until_ready(step(operand))


if __name__ == "__main__":
    main()
