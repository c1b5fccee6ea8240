"""The facts that ``xla-shmem doctor`` gathers, as plain data. The diagnosis depends on nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xla_shmem.gpu.cuda_driver import VisibleGpus
from xla_shmem.gpu.jax_plugin import CudaPlugin
from xla_shmem.gpu.nvml import Driver


@dataclass(frozen=True)
class Library:
    """The result of the search for a library.

    Attributes:
      path: path or soname; "" if none was found.
      version: version that the library or its wheel reports; "" if unknown.
      error: why it cannot be used; "" if it can.
      cause: kind of the error: no library, a library for another CUDA release, or an unusable library named by an
        option.
    """

    path: str
    version: str
    error: str
    cause: Literal["", "missing", "other CUDA", "option"] = ""


@dataclass(frozen=True)
class SharedMemory:
    """/dev/shm, in bytes.

    Attributes:
      error: why no file can be created there; "" if it can.
      memory_limit: limit of this process's control group, which counts shared memory; None if there is no limit.
    """

    total: int
    free: int
    error: str
    memory_limit: int | None


@dataclass(frozen=True)
class Installation:
    """The installed packages.

    Attributes:
      jax, jaxlib: versions; None if missing.
      cuda_plugins: CUDA plugins of JAX, in the order in which JAX tries them.
      core_error: why the compiled module of xla-shmem cannot be loaded; "" if it can.
      entry_point: whether JAX can find the plugin.
      lowers_gpu: whether this build replaces collectives in GPU programs.
    """

    xla_shmem: str
    jax: str | None
    jaxlib: str | None
    cuda_plugins: tuple[CudaPlugin, ...]
    core_error: str
    entry_point: bool
    lowers_gpu: bool


@dataclass(frozen=True)
class Environment:
    """Settings in environment variables.

    Attributes:
      flag: value of the flag; None if it is not set.
      error: error in the flag or in an option; "" if there is none.
      platforms: ``JAX_PLATFORMS``.
      gpus_per_process: number of GPUs that a JAX process with this environment would use.
    """

    flag: bool | None
    error: str
    platforms: str
    gpus_per_process: int


@dataclass(frozen=True)
class Facts:
    """One machine.

    Attributes:
      system: name of the operating system, such as ``"Linux"``.
      machine: name of the architecture, such as ``"x86_64"``.
      cores: processors that this process may use.
      domains: for each visible GPU, number of its NVLink domain and the reason, for a job of one process per GPU.
    """

    system: str
    machine: str
    python: str
    cores: int
    shared_memory: SharedMemory
    installation: Installation
    environment: Environment
    driver: Driver
    visible: VisibleGpus
    domains: tuple[tuple[int, str], ...]
    nvshmem: Library
    nvrtc: Library
    nccl: Library
