"""Runs a program in a process of its own, because JAX starts once in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

#: A sum and a permute over four CPU devices of this process, lowered. The permute is in a loop.
PROGRAM = """
import json
import jax, jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P

def step(devices=4):
    mesh = Mesh(jax.devices()[:devices], ("x",))
    ring = [(i, (i + 1) % devices) for i in range(devices)]

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def both(x):
        x = jax.lax.fori_loop(0, 3, lambda _, y: jax.lax.ppermute(y, "x", ring), x)
        return x + jax.lax.psum(x, "x")

    return both, jnp.ones((devices, 1024))

def lowered(devices=4):
    function, x = step(devices)
    return function.lower(x)
"""


def environment(**variables: str) -> dict[str, str]:
    """The environment of a user's shell: four CPU devices, and none of xla-shmem's variables."""
    dropped = ("XLA_", "JAX_", "OMPI_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"} | variables


def run(code: str, **variables: str) -> Any:
    """Returns what the last line of a program's output holds, as JSON."""
    command = [sys.executable, "-c", code]
    environ = environment(**variables)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
