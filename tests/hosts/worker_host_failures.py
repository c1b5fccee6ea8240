"""The last rank is killed while all ranks sum over groups; the others report their error and the time until it came.

Argument: the groups, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import jax
import numpy as np
from case_world import World
from jax import lax
from job_runs import report


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher stops all ranks as soon as one has died
    jax.distributed.initialize()
    world = World()
    groups = json.loads(sys.argv[1])
    function = world.shard_map(lambda x: lax.psum(x, "x", axis_index_groups=groups))
    ones = world.put(np.ones((world.n, 1 << 18), np.float32))
    jax.block_until_ready(function(ones))  # the signal comes in a collective, not while one rank compiles
    if world.rank == world.ranks - 1:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    begin = time.monotonic()
    try:
        while True:
            jax.block_until_ready(function(ones))
    except Exception as error:
        report({"error": str(error), "seconds": time.monotonic() - begin})
    time.sleep(3)  # the others report too
    os._exit(3)  # JAX's shutdown would wait for the dead rank


if __name__ == "__main__":
    main()
