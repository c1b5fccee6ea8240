"""GPU 1 of the only process comes late to the first run of a sum, because of a callback on its host.

Arguments: seconds by which it is late. Reports the sum's values on GPU 0, or the error, and the seconds until then.
"""

from __future__ import annotations

import sys
import time

import jax
import numpy as np
from case_world import World
from jax import lax
from job_runs import report


def main() -> None:
    late = float(sys.argv[1])
    world = World()

    def wait(values: np.ndarray, device: np.ndarray) -> np.ndarray:
        if device == 1:
            time.sleep(late)
        return np.asarray(values)

    def body(x: jax.Array) -> jax.Array:
        waited = jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x, lax.axis_index("x"))
        return lax.psum(waited, "x")

    function = world.shard_map(body)
    operand = world.put(np.arange(world.n * 3, dtype=np.float32).reshape(world.n, 3))
    begin = time.monotonic()
    try:
        result: dict[str, object] = {"values": np.asarray(function(operand).addressable_shards[0].data).tolist()}
    except Exception as error:
        result = {"error": str(error)}
    report(result | {"seconds": time.monotonic() - begin})


if __name__ == "__main__":
    main()
