"""Jobs whose ranks need not import JAX: they are forks of a process that has, the server (warm_server.py).

This takes two thirds off what a short job costs. But its ranks are more alike than those of users, so only `make test`
turns it on, and some of its jobs stay cold. Each set of the variables that Python, JAX or a library reads when it
starts has a server of its own. Servers begin with the first job that needs them and end with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from warm_server import SET_LATER

#: Set to 1, jobs that can start warm do.
SWITCH = "E2E_WARM_START"

# Beginnings of variables that nothing reads before the first backend, or that are the test's own.
_READ_LATER = (
    *("XLA_", "_XLA_", "CUDA_", "GPU_EMULATOR_", "NVSHMEM_", "OMPI_", "NPROC", "PJRT_NPROC", "TMPDIR"),
    *("E2E_", "PYTEST_"),
)

# A server holds about 100 MB.
_MOST_SERVERS = 3


class WarmLauncher:
    """A running launcher: what `subprocess.Popen` has of it. Its server waits for it."""

    def __init__(self, answers: socket.socket, server: _Server) -> None:
        self.returncode: int | None = None
        self._server = server
        self._answers = answers
        self.pid = int(self._answer(60))

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = int(self._answer(timeout))
            self._server.busy.release()
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, signal.SIGKILL)

    def _answer(self, timeout: float | None) -> bytes:
        self._answers.settimeout(timeout)
        try:
            answer = self._answers.recv(100)
        except TimeoutError:
            raise subprocess.TimeoutExpired("a warm job", timeout or 0) from None
        if not answer:
            raise RuntimeError("warm_server.py has ended; its error is on stderr of this process.")
        return answer


class _Server:
    def __init__(self, environ: Mapping[str, str]) -> None:
        from xla_shmem.launch.shared_buffers import shared_buffer_variables  # ranks without xla-shmem import this file

        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.busy = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("warm_server.py"))],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                # One thread of OpenBLAS: a fork would lose others. Python as the launcher starts its ranks.
                env={
                    "PYTHONUNBUFFERED": "1",
                    **shared_buffer_variables(environ),
                    **environ,
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )

    def run(self, request: Mapping[str, object], output: BinaryIO, results: Path) -> WarmLauncher:
        folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY)
        try:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [output.fileno(), folder])
        finally:
            os.close(folder)
        return WarmLauncher(self._requests, self)

    def end(self) -> None:
        self._requests.close()
        self._process.wait()


_servers: dict[frozenset[tuple[str, str]], _Server] = {}


@atexit.register
def _end_servers() -> None:
    for server in _servers.values():
        server.end()


def _server_of(environ: Mapping[str, str]) -> _Server:
    early = {
        name: value for name, value in environ.items() if not name.startswith(_READ_LATER) and name not in SET_LATER
    }
    key = frozenset(early.items())
    server = _servers.pop(key, None) or _Server(early)
    _servers[key] = server  # the last used is the last
    for old in list(_servers)[:-_MOST_SERVERS]:
        if not _servers[old].busy.locked():
            _servers.pop(old).end()
    return server


def start(
    command: Sequence[str],
    ranks: int,
    devices: int,
    grace: float,
    environ: Mapping[str, str],
    output: BinaryIO,
    results: Path,
) -> WarmLauncher | None:
    """Starts a job warm; returns None if it must start cold.

    It must if `SWITCH` is not set, if a library is to be loaded before all others, or if its server runs another job.
    """
    if os.environ.get(SWITCH) != "1" or "LD_PRELOAD" in environ:
        return None
    server = _server_of(environ)
    if not server.busy.acquire(blocking=False):
        return None
    request = {"command": command, "ranks": ranks, "devices": devices, "grace": grace}
    # If this fails, the server stays busy: it may still answer.
    return server.run(request | {"environ": dict(environ), "folder": os.getcwd()}, output, results)
