"""The device mesh of a job."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh

from xla_shmem.parallel.mesh_shape import AXES, MeshShape


def make_mesh(shape: MeshShape, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh with the axes data, fsdp, context and tensor, in this order.

    Args:
      shape: devices along each axis.
      devices: the devices to use; by default all devices of the job.

    Raises:
      ValueError: the shape needs another number of devices.
    """
    devices = jax.devices() if devices is None else devices
    if shape.devices != len(devices):
        raise ValueError(
            f"mesh {shape} needs {shape.devices} devices, this job has {len(devices)}; start {shape.devices} ranks or "
            f"choose --{', --'.join(AXES)} to multiply to {len(devices)}."
        )
    sizes = tuple(getattr(shape, axis) for axis in AXES)
    return jax.make_mesh(sizes, AXES, devices=devices, axis_types=(AxisType.Auto,) * len(AXES))
