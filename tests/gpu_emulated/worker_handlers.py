"""Programs that call the handlers of xla-shmem themselves, with attributes that the pass does not write.

Usage: worker_handlers.py CALLS, a file with a JSON list of calls (test_handlers.py). Reports the error of each, "" for
none; with several ranks also whether collectives between every second rank give the right results, and how many calls
were decoded in their first run and in three more.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from job_runs import report

from xla_shmem import _core

_TOPOLOGY = re.compile(r"topology = (-?\d+)")


def in_pairs(values: np.ndarray) -> tuple[Any, jax.Array]:
    """A program of a permute and a sum in groups of two, of four ranks every second one, and its argument."""
    n = jax.device_count()
    # Device ids need not be in the order of processes.
    devices = sorted(jax.devices(), key=lambda device: device.process_index)
    order = [rank for half in (0, 1) for rank in range(half, n, 2)]
    mesh = jax.sharding.Mesh(np.array([devices[rank] for rank in order]).reshape(-1, 2), ("domain", "x"))
    swapped = [(0, 1), (1, 0)]

    def body(x: jax.Array) -> jax.Array:
        return jnp.stack([jax.lax.ppermute(x, "x", swapped), jax.lax.psum(x, "x")])

    function = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("domain", "x"), out_specs=P(None, "domain", "x")))
    sharding = NamedSharding(mesh, P("domain", "x"))
    return function, jax.make_array_from_callback(values.shape, sharding, values.__getitem__)


def error_of(call: dict[str, Any], topology: int) -> str:
    """Runs a call on this rank's GPU."""
    integers = {"op": 1 << 60, "topology": topology} | call.get("integers", {})
    attributes: dict[str, Any] = {name: np.int64(value) for name, value in integers.items()}
    attributes |= {"module": "jit_step", "name": "an-op"} | call.get("texts", {})
    attributes |= {name: np.array(value, np.int64) for name, value in call.get("lists", {}).items()}
    for name in call.get("without", []):
        del attributes[name]
    shapes = [jax.ShapeDtypeStruct((count,), call.get("dtype", "float32")) for count in call.get("results", [4])]
    device = jax.local_devices()[0]
    operand = jax.device_put(np.zeros(4, call.get("dtype", "float32")), device)
    run = jax.ffi.ffi_call(call["target"], shapes)
    try:
        jax.block_until_ready(jax.jit(lambda x: run(x, **attributes))(operand))
    except Exception as error:
        return str(error)
    return ""


def main() -> None:
    calls = json.loads(Path(sys.argv[1]).read_text())
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    found: dict[str, Any] = {}
    topology = 0
    if jax.device_count() > 1:
        n = jax.device_count()
        values = np.arange(n * 1000, dtype=np.float32).reshape(n // 2, -1)
        function, argument = in_pairs(values)
        text = function.lower(argument).compile().as_text()
        topology = int(_TOPOLOGY.findall(text)[0])
        halves = values.reshape(n // 2, 2, 1000)
        want = np.stack([halves[:, ::-1], np.broadcast_to(halves.sum(1, keepdims=True), halves.shape)])
        want = want.reshape(2, n // 2, -1)
        result = function(argument)
        found["decoded"] = _core.gpu_decoded_calls()
        for _ in range(3):
            result = function(argument)
        found["decoded_again"] = _core.gpu_decoded_calls() - found["decoded"]
        found["collectives"] = sorted(set(re.findall(r'custom_call_target="(xla_shmem\.\w+)"', text)))
        found["right"] = all((np.asarray(s.data) == want[s.index]).all() for s in result.addressable_shards)
    found["errors"] = [error_of(call, topology) for call in calls]
    report(found)


main()
