"""mpirun for the hosts of a job (`run_on_hosts.py --between`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_AGENT = Path(__file__).resolve().parent / "mpi_agent.py"
_NETWORK = "10.77.0.0/24"

#: Where JAX's coordinator listens, in rank 0. By itself JAX takes the host of mpirun, which has no rank.
COORDINATOR = "10.77.0.1:47123"


def mpirun_command(ranks: Sequence[int], folder: Path) -> list[str]:
    """Returns the command that starts ranks under Open MPI 4, without their program; so many on each host.

    The ranks get the environment of mpirun. `folder` is for files that Open MPI names by host and process id, which are
    the same in every job.
    """
    hosts = ",".join(f"host{host}:{number}" for host, number in enumerate(ranks))
    return [
        "mpirun",
        "--allow-run-as-root",
        *("-n", str(sum(ranks)), "--host", hosts),
        *("--mca", "plm_rsh_agent", str(_AGENT), "--mca", "orte_tmpdir_base", str(folder)),
        *("--mca", "btl", "tcp,self,vader"),
        *("--mca", "btl_tcp_if_include", _NETWORK, "--mca", "oob_tcp_if_include", _NETWORK),
    ]
