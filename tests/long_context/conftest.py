"""Eight CPU devices for meshes. They must be configured before JAX creates its first backend, so the tests of this
folder need a separate pytest run."""

import os

import jax
import pytest
from jax.sharding import AxisType, Mesh

DEVICES = 8

jax.config.update("jax_num_cpu_devices", DEVICES)

# The older emitter compiles loops in a fifth of the time; later releases have neither it nor the flag.
if jax.__version_info__ < (0, 11):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(scope="session")
def mesh_of():
    """Returns a function that makes a mesh of the first devices: mesh_of(data=2, tensor=4)."""
    assert jax.device_count() == DEVICES, "run this folder's tests by themselves: pytest tests/long_context"

    def make(**axes: int) -> Mesh:
        sizes = tuple(axes.values())
        count = 1
        for size in sizes:
            count *= size
        return jax.make_mesh(
            sizes, tuple(axes), axis_types=(AxisType.Auto,) * len(sizes), devices=jax.devices()[:count]
        )

    return make


@pytest.fixture(scope="module")
def quick_compilation():
    """Disables expensive compiler passes: these tests compile much and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
