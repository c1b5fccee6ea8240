"""The facts that ``xla-shmem doctor`` gathers, as plain data. The diagnosis depends on nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
      cause: kind of the error: no library, a library for another CUDA release, an unusable library named by an
        option, or options that cannot be read, so that nothing was searched.
    """

    path: str
    version: str
    error: str
    cause: Literal["", "missing", "other CUDA", "option", "wrong options"] = ""


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
      flag_error: error in the flag; "" if there is none.
      option_error: error in an option ``XLA_SHMEM_*``; "" if there is none.
      platforms: ``JAX_PLATFORMS``.
      gpus_per_process: number of GPUs that a JAX process with this environment would use.
      heap_size: bytes of shared memory of each process, by ``XLA_SHMEM_HEAP_SIZE``; None: as much as fits.
      cpu_collectives: JAX's backend between CPU processes, ``"gloo"`` or ``"mpi"``.
      gpu_choice: which of the visible GPUs this process uses, as ``SLURM_LOCALID=1``; "" for all.
      gpu_error: why JAX cannot use that choice; "" if it can.
      xla_flags: ``XLA_FLAGS``.
      visible_devices: ``CUDA_VISIBLE_DEVICES``; None if it is not set.
      array_memory: variables that ``xla-shmem launch`` would set for arrays; none that are set or cannot be.
      needs_nvshmem: whether ``XLA_SHMEM_GPU_HEAP`` or ``XLA_SHMEM_GPU_PUTS`` asks for NVSHMEM.
    """

    flag: bool | None
    flag_error: str
    option_error: str
    platforms: str
    gpus_per_process: int
    heap_size: int | None = None
    cpu_collectives: str = "gloo"
    gpu_choice: str = ""
    gpu_error: str = ""
    xla_flags: str = ""
    visible_devices: str | None = None
    array_memory: Mapping[str, str] = field(default_factory=dict)
    needs_nvshmem: bool = False


@dataclass(frozen=True)
class Network:
    """What processes of one host need to find each other.

    Attributes:
      host_name: name of this host.
      name_is_number: whether the name is taken for an address instead of being looked up.
      name_error: why gloo cannot listen at its address, to follow the name; "" if it can.
      loopback_error: why 127.0.0.1 cannot be reached; "" if it can.
    """

    host_name: str
    name_is_number: bool
    name_error: str
    loopback_error: str


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
    network: Network
    driver: Driver
    visible: VisibleGpus
    domains: tuple[tuple[int, str], ...]
    nvshmem: Library
    nvrtc: Library
    nccl: Library
