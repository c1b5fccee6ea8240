"""Runs steps with every collective until a fault hits one rank, or for a number of steps.

Arguments: fault (`kill`, `stop`, `fork`, `clock`, `stop-clock`), the rank that it hits, seconds until then, steps.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time


def _strike(fault: str) -> None:
    pid = os.getpid()
    if fault == "kill":
        os.kill(pid, signal.SIGKILL)
    elif fault.startswith("stop"):
        os.kill(pid, signal.SIGSTOP)
    elif fault == "fork" and os.fork() == 0:
        ctypes.CDLL(None).exit(0)  # with the exit handlers of C++, which this process has inherited


def main() -> None:
    import jax
    import numpy as np
    from case_world import World
    from jax import lax
    from job_runs import report

    fault, victim, seconds, steps = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    jax.distributed.initialize()
    world = World()
    n = world.n
    pairs = [(i, (i + 1) % n) for i in range(n)]

    def step(x: jax.Array) -> jax.Array:
        total = lax.psum(x, "x")
        shifted = lax.ppermute(x, "x", pairs)
        gathered = lax.psum_scatter(lax.all_gather(x, "x"), "x")
        swapped = lax.all_to_all(x.reshape(n, -1), "x", 0, 0).reshape(x.shape)
        return total + shifted + gathered + swapped

    values = np.arange(n * 4096 * n, dtype=np.int32).reshape(n, 4096 * n)
    swapped = values.reshape(n, n, 4096).transpose(1, 0, 2).reshape(n, -1)
    expected = values.sum(0, dtype=np.int32) + np.roll(values, 1, 0) + n * values + swapped
    function, operand = world.shard_map(step), world.put(values)
    world.equals(function(operand), expected)
    if fault.endswith("clock"):
        ctypes.CDLL(None).start_jumping()
    times_of_day = [time.time() for _ in range(100)]
    strikes = jax.process_index() == victim and fault != "clock"
    if strikes:
        threading.Thread(target=lambda: (time.sleep(seconds), _strike(fault)), daemon=True).start()
    done = 0
    until = time.monotonic() + seconds + 1.0
    while done < steps or (fault in ("kill", "stop", "stop-clock") and time.monotonic() < until + 60):
        if fault == "clock" and jax.process_index() == victim:
            time.sleep(seconds / 10)  # so that the others have to wait
        world.equals(function(operand), expected)
        done += 1
    report({"done": done, "jumped": max(times_of_day) - min(times_of_day) > 3600})


if __name__ == "__main__":
    main()
