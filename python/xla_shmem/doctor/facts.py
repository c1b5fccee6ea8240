"""Everything that ``xla-shmem doctor`` looks at, as plain data: what it says follows from this and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xla_shmem.gpu.cuda_driver import VisibleGpus
from xla_shmem.gpu.jax_plugin import CudaPlugin
from xla_shmem.gpu.nvml import Driver


@dataclass(frozen=True)
class Library:
    """A library that was looked for.

    Attributes:
      path: what was opened or would be; "" if there is none.
      version: as the library or its wheel says; "" if unknown.
      error: why it cannot be used, "" if it can.
      cause: what kind of error that is: there is none, there is one for another CUDA, or the one that an option names
        is none.
    """

    path: str
    version: str
    error: str
    cause: Literal["", "missing", "other CUDA", "option"] = ""


@dataclass(frozen=True)
class SharedMemory:
    """/dev/shm, in bytes.

    Attributes:
      error: why no file can be made there, "" otherwise.
      memory_limit: of this process's control group, which counts shared memory; None without one.
    """

    total: int
    free: int
    error: str
    memory_limit: int | None


@dataclass(frozen=True)
class Installation:
    """The packages.

    Attributes:
      jax, jaxlib: versions, None if missing.
      cuda_plugins: in the order JAX tries them.
      core_error: why the compiled module of xla-shmem cannot be loaded, "" otherwise.
      entry_point: whether JAX will find the plugin.
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
    """What the environment asks for.

    Attributes:
      flag: the flag's value, None if it is not there.
      error: what is wrong with the flag or an option, "" otherwise.
      platforms: ``JAX_PLATFORMS``.
      gpus_per_process: how many GPUs a JAX process started from here would take.
    """

    flag: bool | None
    error: str
    platforms: str
    gpus_per_process: int


@dataclass(frozen=True)
class Facts:
    """One machine.

    Attributes:
      system: ``"Linux"`` and the like.
      machine: ``"x86_64"`` and the like.
      cores: that this process may use.
      domains: number of the NVLink domain of each visible GPU, and the reason, had each a process of its own.
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
