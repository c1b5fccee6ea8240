"""The device mesh of a job."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.sharding import AxisType, Mesh

from long_context.parallel.mesh_shape import AXES, MeshShape


def make_mesh(shape: MeshShape, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh with the axes data, fsdp, expert, context, context_shard and tensor, in this order.

    Devices that split the sequence lie along `context` and `context_shard`; along the latter they shard parameters too.

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
    axes = {axis: getattr(shape, axis) for axis in AXES[:-1]}
    axes |= {"context": shape.context // shape.context_shards, "context_shard": shape.context_shards}
    axes["tensor"] = shape.tensor
    return jax.make_mesh(tuple(axes.values()), tuple(axes), devices=devices, axis_types=(AxisType.Auto,) * len(axes))
