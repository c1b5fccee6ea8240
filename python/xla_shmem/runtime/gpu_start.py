"""Starts the GPU path of this process if it uses GPUs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xla_shmem.gpu.jax_plugin import local_ordinals, wanted_plugin, why_too_old
from xla_shmem.options import Options
from xla_shmem.runtime.store import open_store

if TYPE_CHECKING:
    from xla_shmem.runtime.gpu_job import GpuJob


#: Hardware queues of a GPU; the driver reads the variable when it starts. With the default of 8, compute of one stream
#: more often stands in a queue behind a wait of another stream.
_HARDWARE_QUEUES = ("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def start_gpu_job(options: Options, error: str) -> GpuJob | None:
    """Returns the started GPU job of this process, None if JAX has no CUDA plugin or does not use it.

    Args:
      options: the options in force.
      error: why this process cannot take part, "" if it can.
    """
    plugin = wanted_plugin()
    if plugin is None:
        return None
    os.environ.setdefault(*_HARDWARE_QUEUES)
    from xla_shmem.runtime.gpu_job import GpuJob

    job = GpuJob(options, *open_store())
    job.start(local_ordinals(), plugin.cuda, error or why_too_old(plugin), compiler=plugin.pjrt or "")
    return job
