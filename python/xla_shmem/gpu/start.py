"""Starts the GPU road of this process where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xla_shmem.gpu.jax_plugin import local_ordinals, wanted_cuda
from xla_shmem.job_store import open_store
from xla_shmem.options import Options

if TYPE_CHECKING:
    from xla_shmem.gpu.job import GpuJob


def start_gpu_job(options: Options, error: str) -> GpuJob | None:
    """Returns this process's part in a job of GPUs, None where JAX has no CUDA plugin or is told not to use it.

    Args:
      options: the options in force.
      error: why this process cannot take part, "" if it can.
    """
    cuda = wanted_cuda()
    if cuda is None:
        return None
    from xla_shmem.gpu.job import GpuJob

    job = GpuJob(options, *open_store())
    job.start(local_ordinals(), cuda, error)
    return job
