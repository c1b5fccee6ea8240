"""Starts ranks of training jobs by fork, after all imports: a run costs no import of JAX.

Reads one JSON object a line from stdin and answers with one on stdout. `{"start": ..}` forks the processes of a job,
`{"reap": true}` waits for their ends. A fork is sound because this process has one thread and no backend.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from pathlib import Path

import jax
from fault_rank import train
from jax._src.lib import _jax

from xla_shmem.launch.rank_environment import rank_environment, reserve_port


def _check_fork_is_sound() -> None:
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads before the fork"
    from jax._src import xla_bridge

    assert not xla_bridge.backends_are_initialized(), "a backend before the fork"


def _fork(group: int, output: Path) -> int:
    """As `os.fork`, into process group `group` (0: a new one), with stdout and stderr to a file."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, group)
    sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(sink, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return 0


def _coordinate(address: str, ranks: int, ready: int) -> None:
    """JAX's coordination service, in a process of its own: a fault of rank 0 is then a fault like any other."""
    service = _jax.get_distributed_runtime_service(address, ranks, heartbeat_timeout=100, shutdown_timeout=60)
    os.write(ready, b"1")
    signal.pause()
    del service


def _become_rank(environ: dict[str, str], folder: Path, programs: Path, ranks: int, steps: int) -> None:
    os.environ.clear()
    os.environ.update(environ)
    jax.config.update("jax_num_cpu_devices", 1)
    _jax.get_distributed_runtime_service = lambda *args, **kwargs: None  # the coordinator has it
    train(folder, programs, ranks, steps)


def _start(folder: Path, ranks: int, steps: int, job: str, extra: dict[str, str]) -> list[int] | None:
    """Returns the pids, the coordinator's first; None in a child that has come to its end."""
    _check_fork_is_sound()
    holder, port = reserve_port()
    read_end, write_end = os.pipe()
    with holder:
        pids = [_fork(0, folder / "coordinator.txt")]
        if pids[0] == 0:
            _coordinate(f"127.0.0.1:{port}", ranks, write_end)
            return None
        os.setpgid(pids[0], pids[0])
        os.read(read_end, 1)
    os.close(read_end)
    os.close(write_end)
    for rank in range(ranks):
        environ = rank_environment(
            {**os.environ, **extra}, rank=rank, num_ranks=ranks, devices_per_process=1, port=port, job=job
        )
        pid = _fork(pids[0], folder / f"{rank}.txt")
        if pid == 0:
            _become_rank(environ, folder, folder.parent, ranks, steps)
            return None
        pids.append(pid)
    return pids


def main() -> None:
    """Serves until stdin ends."""
    gc.freeze()  # so that collections of the ranks do not copy the pages that they share with this process
    pids: list[int] = []
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            started = _start(Path(request["start"]), request["ranks"], request["steps"], request["job"], request["env"])
            if started is None:
                return
            pids = started
            print(json.dumps({"pids": pids}), flush=True)
        else:
            print(json.dumps({"statuses": [os.waitpid(pid, 0)[1] for pid in pids]}), flush=True)


if __name__ == "__main__":
    main()
