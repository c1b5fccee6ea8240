"""Programs in processes where JAX lacks a backend: `JAX_PLATFORMS` leaves it out, or its plugin fails to start.

The backend beside JAX's own is a second client of XLA:CPU, named "other". It stands for any platform but the CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from xla_shmem.options import resolve
from xla_shmem.runtime.compiler_pass import CompilerPass

FLAG = "--xla_gpu_experimental_enable_nvshmem=true"

PROGRAM = """
import json
import jax
import numpy as np
from jax import lax
from jax._src import xla_bridge
from jax._src.lib import xla_client
from jax.sharding import Mesh, PartitionSpec

def broken():
    raise RuntimeError("this plugin fails to start")

xla_bridge.register_backend_factory("other", lambda: xla_client.make_cpu_client(), priority=-1)
xla_bridge.register_backend_factory("broken", broken, priority=500, fail_quietly=True)
backends = xla_bridge.backends()
mesh = Mesh(np.array(jax.devices()), ("x",))
total = jax.jit(
    jax.shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec())
)
text = total.lower(np.arange(8.0)).compile().as_text()
from xla_shmem import plugin
print(json.dumps({
    "backends": sorted(backends),
    "active": plugin.active(),
    "values": total(np.arange(8.0)).tolist(),
    "on SHMEM": text.count('custom_call_target="xla_shmem.all_reduce"'),
}))
"""


def run(platforms: str) -> dict[str, object]:
    """Returns the output of the program in a process with the flag and two devices of XLA:CPU."""
    environ = os.environ | {
        "JAX_PLATFORMS": platforms,
        "XLA_FLAGS": f"{FLAG} --xla_force_host_platform_device_count=2",
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_programs_run_without_a_cpu_backend() -> None:
    result = run("other")
    assert result["backends"] == ["other"]
    assert result["active"]
    assert sum(result["values"]) == 28  # type: ignore[arg-type]


@pytest.mark.parametrize("platforms", ["cpu", "cpu,other", ""])
def test_with_a_cpu_backend_its_collectives_run_on_shmem(platforms: str) -> None:
    result = run(platforms)
    assert "broken" not in result["backends"]  # type: ignore[operator]
    assert result["values"] == [4.0, 6.0, 8.0, 10.0]
    assert result["on SHMEM"] == 1


def test_the_key_of_a_compiled_module_asks_the_platform_of_its_devices_only() -> None:
    # A GPU's module must not depend on the segments of the CPU path, which may be impossible to map.
    asked: list[str] = []

    def salt(name: str) -> str:
        asked.append(name)
        return f"job of {name}"

    def platform(name: str) -> SimpleNamespace:
        return SimpleNamespace(device_platform=name, cache_salt=lambda: salt(name))

    compiler_pass = CompilerPass(SimpleNamespace(process=0), None, resolve({}, {}))  # type: ignore[arg-type]
    compiler_pass._platforms = [platform("cpu"), platform("gpu")]  # type: ignore[list-item]
    assert "job of gpu" in compiler_pass.cache_salt("gpu")
    assert asked == ["gpu"]
