"""A Slurm cluster on this machine, state and sockets in one folder: munged, slurmctld, and a slurmd for each node."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xla_shmem.launch.rank_environment import reserve_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")


def installed() -> bool:
    """Whether Slurm and munge are here, and the user is root: slurmd starts each step as the user of its job."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    return os.geteuid() == 0 and all(shutil.which(program, path=path) for program in PROGRAMS)


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of the cluster.

    Attributes:
      name: its host name.
      address: IPv4 address of its slurmd.
      enter: command that runs another one on the node; empty for this machine itself.
    """

    name: str
    address: str
    enter: tuple[str, ...] = ()


def this_machine() -> Node:
    """The machine as the only node of a cluster."""
    return Node(socket.gethostname().split(".")[0], "127.0.0.1")


@contextlib.contextmanager
def cluster(
    folder: Path, nodes: Sequence[Node], *, gpus: int = 0, controller: str = "127.0.0.1"
) -> Iterator[dict[str, str]]:
    """Starts the cluster and yields the variables that its clients need.

    Args:
      gpus: number of GPUs of each node, which exist by name only.
      controller: IPv4 address of this process, where slurmctld listens.

    Raises:
      RuntimeError: a node is not ready within 30 seconds.
    """
    # pytest's folders are open to their user alone; munged refuses a socket that other users cannot reach.
    folder.chmod(0o755)
    munge = folder / "munge"
    munge.mkdir(mode=0o755)
    key = munge / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    config = folder / "slurm.conf"
    ports = reserve_port(), reserve_port()
    names = ",".join(node.name for node in nodes)
    if gpus:
        (folder / "gres.conf").write_text(f"NodeName={names} Name=gpu File={folder}/gpu[0-{gpus - 1}]\n")
    for gpu in range(gpus):
        (folder / f"gpu{gpu}").touch()
    resources = f"CPUs={os.cpu_count()}" + (f" Gres=gpu:{gpus}" if gpus else "")
    described = "\n".join(f"NodeName={node.name} NodeAddr={node.address} {resources} State=UNKNOWN" for node in nodes)
    config.write_text(
        f"""ClusterName=test
SlurmctldHost={socket.gethostname().split(".")[0]}({controller})
SlurmctldPort={ports[0][1]}
SlurmdPort={ports[1][1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge}/socket
CredType=cred/munge
MpiDefault=none
GresTypes=gpu
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
{described}
PartitionName=all Nodes={names} Default=YES OverSubscribe=FORCE:8 State=UP
"""
    )
    (folder / "state").mkdir()
    for node in nodes:
        (folder / f"spool.{node.name}").mkdir()
    environ = os.environ | {"SLURM_CONF": str(config), "PATH": os.pathsep.join([os.environ["PATH"], "/usr/sbin"])}
    for holder, _ in ports:
        holder.close()
    commands = (
        ("munged", ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
         f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"]),
        ("slurmctld", ["slurmctld", "-D", "-i"]),
        *((f"slurmd.{node.name}", [*node.enter, "slurmd", "-D", "-N", node.name]) for node in nodes),
    )  # fmt: skip
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name, command in commands:
            log = (folder / f"{name}.out").open("wb")
            running.append(subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT))
            _wait_until(lambda: (munge / "socket").exists(), 10, folder)
        _wait_until(lambda: _node_states(environ) == {"idle"}, 30, folder)
        yield environ
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _node_states(environ: dict[str, str]) -> set[str]:
    listed = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=environ, capture_output=True, text=True, check=False)
    return set(listed.stdout.split())


def _wait_until(ready: Callable[[], bool], seconds: float, folder: Path) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            logs = [f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in folder.glob("*.out")]
            raise RuntimeError("Slurm did not start:\n" + "\n".join(logs))
        time.sleep(0.2)
