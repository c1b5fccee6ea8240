"""The environment in which a rank's plain ``jax.distributed.initialize()`` finds its job.

JAX reads the coordinator's address from ``JAX_COORDINATOR_ADDRESS``, but takes the number of processes and the
process id only from its arguments or from a cluster that it recognises (``jax/_src/clusters``). It first checks for
Open MPI, by variables alone, so each rank gets the variables that ``mpirun`` of Open MPI 4 would set. JAX 0.10.2,
0.11.2 and 0.12.0.1 read them in the same way. From 0.12, ``OMPI_VERSION`` of 5 or more makes JAX use mpi4py instead,
so that variable is removed.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

#: Variables that only ranks have, of the clusters that JAX recognises: Open MPI (and our launcher), Slurm, an indexed
#: job of Kubernetes. A process in an allocation or a pod that is not a rank lacks one of a pair.
_RANK_MARKS = (
    ("OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_RANK"),
    ("SLURM_STEP_NODELIST", "SLURM_PROCID"),
    ("KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"),
)


def reserve_port() -> tuple[socket.socket, int]:
    """Returns a socket that reserves a free loopback port, and the port.

    The coordinator (gRPC, which binds with SO_REUSEPORT) can listen on the port while the socket is open. The socket
    itself never listens, so it receives no connections.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]


def inside_a_job(environ: Mapping[str, str]) -> bool:
    """Returns whether this process is a rank, so that ``jax.distributed.initialize()`` finds its job."""
    return any(all(name in environ for name in marks) for marks in _RANK_MARKS)


def platform_note(environ: Mapping[str, str], num_devices: int, num_gpus: int) -> str | None:
    """Returns why the ranks run on the CPU, or None if JAX chooses.

    Ranks run on the CPU if the machine has some GPUs but fewer than the ranks need, and the environment chooses neither
    platform nor devices. JAX would fail there on a device that does not exist.
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
      environ: the launcher's own environment, passed on except for the variables set here.
      rank: 0 … num_ranks-1.
      devices_per_process: K devices of this rank: K CPU devices, or GPUs rank·K … rank·K+K-1. None means JAX's own
        number of CPU devices, and one GPU per rank.
      port: loopback port of the coordinator, which runs in rank 0.
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
    result.setdefault("PYTHONUNBUFFERED", "1")  # so that the output of a killed rank is not lost in its buffer
    if devices_per_process is not None:
        first = rank * devices_per_process
        result["JAX_NUM_CPU_DEVICES"] = str(devices_per_process)
        result.setdefault("JAX_LOCAL_DEVICE_IDS", ",".join(str(first + i) for i in range(devices_per_process)))
    return result
