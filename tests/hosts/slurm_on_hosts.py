"""Runs a command as the user of a Slurm cluster whose nodes are the hosts of a job (`run_on_hosts.py --between`).

    python tests/hosts/run_on_hosts.py --ranks 4,4 --between -- \
      python tests/hosts/slurm_on_hosts.py FOLDER srun -N 2 -n 8 python train.py

FOLDER, which must be empty, gets the state and the logs of Slurm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from network_hosts import BETWEEN, NAMESPACES, Host

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from slurm_cluster import Node, cluster


def main() -> int:
    """Returns the exit code of the command."""
    folder, *command = sys.argv[1:]
    hosts = {one["name"]: Host(**one) for one, _ in json.loads(os.environ.pop("HOSTS_LAYOUT"))}
    nodes = [
        Node(host.name, host.address, ("nsenter", "--target", str(host.pid), *NAMESPACES, "--"))
        for host in hosts.values()
    ]
    with cluster(Path(folder), nodes, controller=BETWEEN) as environ:
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
