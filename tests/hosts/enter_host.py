"""A rank on its way to its host: `launch` has started it here, and here it enters the host and runs its program."""

from __future__ import annotations

import json
import os
import sys

from network_hosts import NAMESPACES, Host


def main() -> None:
    layout = [(Host(**host), local) for host, local in json.loads(os.environ.pop("HOSTS_LAYOUT"))]
    host, local = layout[int(os.environ["OMPI_COMM_WORLD_RANK"])]
    address = f"{layout[0][0].address}:{os.environ['JAX_COORDINATOR_PORT']}"
    os.environ |= {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_COORDINATOR_BIND_ADDRESS": address,
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{address}",
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
    }
    into = ["nsenter", "--target", str(host.pid), *NAMESPACES, f"--wdns={os.getcwd()}"]
    os.execvp("nsenter", [*into, "--", *sys.argv[1:]])


if __name__ == "__main__":
    main()
