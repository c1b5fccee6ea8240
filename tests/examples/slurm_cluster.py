"""A Slurm cluster of one node, this machine: munged, slurmctld and slurmd with state and sockets in one folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xla_shmem.launch.rank_environment import reserve_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")


def installed() -> bool:
    """Whether Slurm and munge are here, and the user is root: slurmd starts each step as the user of its job."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    return os.geteuid() == 0 and all(shutil.which(program, path=path) for program in PROGRAMS)


@contextlib.contextmanager
def cluster(folder: Path, *, gpus: int) -> Iterator[dict[str, str]]:
    """Starts the cluster, with `gpus` GPUs that exist by name only, and yields the variables that its clients need.

    Raises:
      RuntimeError: the node is not ready within 30 seconds.
    """
    # pytest's folders are open to their user alone; munged refuses a socket that other users cannot reach.
    folder.chmod(0o755)
    munge = folder / "munge"
    munge.mkdir(mode=0o755)
    key = munge / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    config = folder / "slurm.conf"
    controller, node = reserve_port(), reserve_port()
    host = socket.gethostname().split(".")[0]
    (folder / "gres.conf").write_text(f"NodeName={host} Name=gpu File={folder}/gpu[0-{gpus - 1}]\n")
    for gpu in range(gpus):
        (folder / f"gpu{gpu}").touch()
    config.write_text(
        f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller[1]}
SlurmdPort={node[1]}
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
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:8 State=UP
"""
    )
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    environ = os.environ | {"SLURM_CONF": str(config), "PATH": os.pathsep.join([os.environ["PATH"], "/usr/sbin"])}
    for holder, _ in (controller, node):
        holder.close()
    commands = (
        ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}/socket",
         f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed"],
        ["slurmctld", "-D", "-i"],
        ["slurmd", "-D", "-N", host],
    )  # fmt: skip
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            log = (folder / f"{command[0]}.out").open("wb")
            running.append(subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT))
            _wait_until(lambda: (munge / "socket").exists(), 10, folder)
        _wait_until(lambda: _node_state(environ) == "idle", 30, folder)
        yield environ
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _node_state(environ: dict[str, str]) -> str:
    listed = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environ, capture_output=True, text=True, check=False)
    return listed.stdout.strip()


def _wait_until(ready: Callable[[], bool], seconds: float, folder: Path) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            logs = [f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in folder.glob("*.out")]
            raise RuntimeError("Slurm did not start:\n" + "\n".join(logs))
        time.sleep(0.2)
