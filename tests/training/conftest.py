"""Eight CPU devices for meshes. They must be asked for before JAX makes its first backend, so this folder's tests are a
pytest run of their own."""

import os

import jax
import pytest
from jax.sharding import AxisType, Mesh

DEVICES = 8

jax.config.update("jax_num_cpu_devices", DEVICES)

# The older way with loops compiles in a fifth of the time; later releases no longer have it, nor the flag.
if jax.__version_info__ < (0, 11):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_use_fusion_emitters=false"


@pytest.fixture(scope="session")
def mesh_of():
    """Makes a mesh of the first devices: mesh_of(data=2, tensor=4)."""
    assert jax.device_count() == DEVICES, "run this folder's tests by themselves: pytest tests/training"

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
    """Leaves out the compiler's expensive passes: these tests compile much and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
