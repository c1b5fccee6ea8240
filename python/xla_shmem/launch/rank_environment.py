"""The environment in which a rank's plain ``jax.distributed.initialize()`` finds its job.

JAX reads the coordinator's address from ``JAX_COORDINATOR_ADDRESS`` but takes the number of processes and the
process id only from its arguments or from a cluster it recognises (``jax/_src/clusters``). The first it looks
for is Open MPI, by variables alone, so each rank gets the few that an ``mpirun`` of Open MPI 4 would set. JAX
0.10.2, 0.11.2 and 0.12.0.1 all read them the same way; from 0.12 ``OMPI_VERSION`` of 5 or more would send JAX
to mpi4py instead, so that one is taken out.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

#: Variables that only a rank has, of the clusters that JAX recognises by itself: Open MPI (and our launcher), Slurm,
#: an indexed job of Kubernetes. An allocation or a pod in which nothing has been started as ranks yet lacks one.
_RANK_MARKS = (
    ("OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NODELIST", "SLURM_PROCID"),
    ("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"),
)

_NVIDIA_GPUS = Path("/proc/driver/nvidia/gpus")


def reserve_port() -> tuple[socket.socket, int]:
    """Returns a socket that keeps a free loopback port from everybody else, and the port.

    The coordinator (gRPC, which binds with SO_REUSEPORT) can still listen on it while the socket is open; the
    socket itself never listens, so it takes no connections away.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]


def inside_a_job(environ: Mapping[str, str]) -> bool:
    """Returns whether this process is a rank, so that ``jax.distributed.initialize()`` finds its job."""
    return any(all(name in environ for name in marks) for marks in _RANK_MARKS)


def local_gpu_count() -> int:
    """Returns the number of NVIDIA GPUs the driver shows, 0 without a driver."""
    return len(list(_NVIDIA_GPUS.iterdir())) if _NVIDIA_GPUS.is_dir() else 0


def platform_note(environ: Mapping[str, str], num_devices: int, num_gpus: int) -> str | None:
    """Returns why the ranks are put on the CPU, or None where the choice is left to JAX.

    Only a machine with some GPUs, but fewer than the ranks need, is put on the CPU, and only if nothing in
    the environment has chosen platform or devices: JAX would fail there on a device that does not exist.
    """
    chosen = ("JAX_PLATFORMS", "JAX_LOCAL_DEVICE_IDS", "CUDA_VISIBLE_DEVICES")
    if not 0 < num_gpus < num_devices or any(environ.get(name) for name in chosen):
        return None
    return (
        f"the ranks need {num_devices} devices and this machine has {num_gpus} GPU(s), so they run on the "
        "CPU; set JAX_PLATFORMS to choose otherwise."
    )


def rank_environment(
    environ: Mapping[str, str],
    *,
    rank: int,
    num_ranks: int,
    devices_per_process: int | None,
    port: int,
    job: str,
) -> dict[str, str]:
    """Returns the environment of one rank.

    Args:
      environ: the launcher's own environment, passed on except for what is set here.
      rank: 0 … num_ranks-1.
      devices_per_process: devices of this rank: so many CPU devices, or GPUs rank·K … rank·K+K-1. None leaves
        JAX's own number of CPU devices, and one GPU per rank.
      port: loopback port of the coordinator, which rank 0 opens.
      job: job key, 32 hexadecimal digits.
    """
    address = f"127.0.0.1:{port}"
    result = dict(environ)
    result.pop("OMPI_VERSION", None)
    result |= {
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",
        "OMPI_COMM_WORLD_SIZE": str(num_ranks),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_COORDINATOR_PORT": str(port),
        "JAX_COORDINATOR_BIND_ADDRESS": address,  # JAX's default listens on every interface
        "XLA_SHMEM_JOB": job,
        "XLA_SHMEM_LOCAL_RANK": str(rank),
    }
    result.setdefault("PYTHONUNBUFFERED", "1")  # what a killed rank printed must not be lost in its buffer
    if devices_per_process is not None:
        first = rank * devices_per_process
        result["JAX_NUM_CPU_DEVICES"] = str(devices_per_process)
        result.setdefault("JAX_LOCAL_DEVICE_IDS", ",".join(str(first + i) for i in range(devices_per_process)))
    return result
