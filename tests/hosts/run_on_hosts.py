"""Runs a program as the ranks of a job on several hosts that are made for it on this machine.

    python tests/hosts/run_on_hosts.py --ranks 2,2 --rate 1gbit -- python train.py

The program is any that calls `jax.distributed.initialize()`. With --between it is a command that runs once, outside of
the hosts but in reach of them, and starts ranks with `ranks_command`. It needs root, or a system that permits user
namespaces.

The hosts are namespaces of processes that descend from one process, the first of a pid namespace. The kernel ends them
all when that process ends, and it ends when this command does, in whatever way. Nothing outside is changed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path

from network_hosts import Host, join_network, make_hosts

from xla_shmem.launch.launcher import GRACE, launch
from xla_shmem.launch.launcher_process import LAUNCHER

HERE = Path(__file__).resolve().parent

#: Variable by which `enter_host.py` learns the hosts.
LAYOUT = "HOSTS_LAYOUT"

_ENTER = (sys.executable, str(HERE / "enter_host.py"))

# Set in the process that is in the namespaces of the job.
_INSIDE = "HOSTS_INSIDE"


def hosts_command(
    ranks: Sequence[int],
    *,
    limit: float,
    devices: int = 1,
    rate: str | None = None,
    status: Path | None = None,
    grace: float = GRACE,
    between: bool = False,
) -> list[str]:
    """Returns the command that runs a program on hosts, without the program.

    Args:
      ranks: number of ranks of each host.
      limit: seconds until the job is stopped.
      devices: CPU devices of each rank.
      rate: as in `make_hosts`.
      status: file for the hosts (`Host`): written as soon as they exist, and again with their counters at the end.
      grace: as in `launch`.
      between: whether the program runs once, outside of the hosts.
    """
    options = [f"--ranks={','.join(map(str, ranks))}", f"--devices-per-process={devices}"]
    options += [f"--limit={limit}", f"--grace={grace}"]
    options += [f"--rate={rate}"] if rate else []
    options += [f"--status={status}"] if status else []
    options += ["--between"] if between else []
    return [sys.executable, str(HERE / "run_on_hosts.py"), *options, "--"]


def ranks_command(ranks: int) -> list[str]:
    """Returns the command that starts ranks on the hosts, without their program, for a program --between them."""
    return [*LAUNCHER, "-n", str(ranks), "--", *_ENTER]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", required=True, help="ranks of each host, e.g. 2,2 for two hosts with two ranks each")
    parser.add_argument("--devices-per-process", type=int, default=1, help="CPU devices of each rank")
    parser.add_argument("--rate", help="bits per second that each host can send and receive, e.g. 1gbit; default: any")
    parser.add_argument("--status", type=Path, help="file for what the hosts are and how much they sent, as JSON")
    parser.add_argument("--limit", type=float, default=3600, help="seconds until the job is stopped")
    parser.add_argument("--grace", type=float, default=GRACE, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--between", action="store_true", help="run the program once, outside of the hosts")
    parser.add_argument("program", nargs="+")
    return parser.parse_args()


def _enter_namespaces() -> None:
    """Runs this command again in namespaces of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    # The child of unshare ends with unshare, and unshare with the process that started it.
    own = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child"]
    os.environ[_INSIDE] = "1"
    os.execvp("setpriv", ["setpriv", "--pdeathsig", "KILL", *own, sys.executable, *sys.argv])


def _stop_after(seconds: float) -> None:
    def stop(number: int, frame: types.FrameType | None) -> None:
        print(f"run_on_hosts: stopped after {seconds:g} s", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + signal.SIGTERM))
        signal.alarm(10)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _write_status(path: Path | None, hosts: Sequence[Host]) -> None:
    if path is not None:
        facts = [dataclasses.asdict(h) | {"sent_bytes": h.sent_bytes(), "segments": h.segments()} for h in hosts]
        path.with_suffix(".part").write_text(json.dumps(facts))
        path.with_suffix(".part").replace(path)


def main() -> int:
    """Returns the exit code of `launch`, or 2 if the hosts cannot be made."""
    arguments = _arguments()
    ranks = [int(number) for number in arguments.ranks.split(",")]
    if not os.environ.pop(_INSIDE, ""):
        _enter_namespaces()
    _stop_after(arguments.limit)
    try:
        hosts = make_hosts(len(ranks), arguments.rate)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"run_on_hosts: {error}; it needs root, or user namespaces, and iproute2.", file=sys.stderr)
        return 2
    _write_status(arguments.status, hosts)
    of_rank = [(host, local) for host, number in zip(hosts, ranks, strict=True) for local in range(number)]
    os.environ[LAYOUT] = json.dumps([(dataclasses.asdict(host), local) for host, local in of_rank])
    if arguments.between:
        join_network()
        code = subprocess.run(arguments.program, check=False).returncode
    else:
        program, devices = [*_ENTER, *arguments.program], arguments.devices_per_process
        code = launch(program, len(of_rank), devices_per_process=devices, grace=arguments.grace)
    _write_status(arguments.status, hosts)
    return code


if __name__ == "__main__":
    sys.exit(main())
