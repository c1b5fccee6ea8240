"""A job of several processes that runs sets of random programs."""

from __future__ import annotations

import collections
import contextlib
import pickle
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from job_runs import FLAG, environment
from program_form import ProgramSet
from run_on_hosts import hosts_command

HERE = Path(__file__).resolve().parent
E2E = HERE.parent / "e2e"
#: Seconds until a set has failed, more than the deadline of a collective.
ANSWER_S = 90
DEADLINE_S = 30
#: Seconds until a job on several hosts is stopped, if the test forgets it.
LIMIT_S = 3600
SETTINGS = {
    "JAX_ENABLE_X64": "1",
    "XLA_SHMEM_OPS": "all",
    "XLA_SHMEM_DEADLINE": str(DEADLINE_S),
    "XLA_SHMEM_STATS": "1",
    "XLA_SHMEM_RECORDS": "off",
    # XLA:CPU has a thread for each core, and each run in flight takes one for each device. With fewer, stock JAX hangs.
    "NPROC": "64",
    "PJRT_NPROC": "64",
}

_CALLS = re.compile(r"^\[0\] +(\d+) .*  ([a-z-]+)  jit", re.M)


@dataclass(frozen=True)
class Shape:
    """A job's processes, the devices of each, and the processes of each host if there are several hosts."""

    processes: int
    devices: int
    hosts: tuple[int, ...] = ()

    def __str__(self) -> str:
        on = f"-hosts-{'+'.join(map(str, self.hosts))}" if self.hosts else ""
        return f"{self.processes}x{self.devices}{on}"

    def start(self, grace: float) -> list[str]:
        """The command that starts the processes, without the program; `grace` as in `launch`."""
        if self.hosts:
            return hosts_command(self.hosts, devices=self.devices, grace=grace, limit=LIMIT_S)
        options = ["-n", str(self.processes), "--devices-per-process", str(self.devices), "--grace", str(grace)]
        return [sys.executable, "-c", "from xla_shmem.cli.main import main; main()", "launch", *options, "--"]


class JobFailure(Exception):
    """The job did not answer, or a process reported an error; the job cannot go on."""


class RandomJob:
    """Processes that run what `results_of` sends them, until `close`."""

    def __init__(self, shape: Shape, settings: Mapping[str, str] | None = None, fault: str = "") -> None:
        self.shape = shape
        self._folder = tempfile.TemporaryDirectory(prefix="random-programs-")
        folder = Path(self._folder.name)
        self._log = folder / "output.txt"
        self._streams: list[BinaryIO] = []
        variables = {"XLA_FLAGS": FLAG, "PYTHONPATH": str(E2E), **SETTINGS, **(settings or {})}
        with socket.socket(socket.AF_UNIX) as server, self._log.open("wb") as sink:
            server.bind(str(folder / "socket"))
            server.listen()
            server.settimeout(60)
            worker = [sys.executable, str(HERE / "worker_programs.py"), str(folder / "socket"), fault]
            self._launcher = subprocess.Popen(
                [*shape.start(grace=1), *worker],
                env=environment(folder, variables),
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
            try:
                streams = [self._connect(server) for _ in range(shape.processes)]
            except OSError as error:
                raise self._failed(f"the job did not start: {error!r}") from None
        self._streams = [stream for _, stream in sorted(streams, key=lambda pair: pair[0])]

    def _connect(self, server: socket.socket) -> tuple[int, BinaryIO]:
        connection, _ = server.accept()
        connection.settimeout(ANSWER_S)
        stream: Any = connection.makefile("rwb")
        return pickle.load(stream), stream

    def results_of(self, programs: ProgramSet) -> list[Any]:
        """The answer of each process: results of each run (program_runs.py).

        Raises:
          JobFailure: a process did not answer, or reported an error. The job has ended.
        """
        answers = []
        try:
            for stream in self._streams:
                pickle.dump(programs, stream)
                stream.flush()
            for stream in self._streams:
                answers.append(pickle.load(stream))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            told = "\n".join(answer for answer in answers if isinstance(answer, str))
            raise self._failed(f"no answer: {error!r}\n{told}") from None
        errors = [f"process {rank}: {answer}" for rank, answer in enumerate(answers) if isinstance(answer, str)]
        if errors:
            raise self._failed("\n".join(errors))
        return answers

    def _failed(self, why: str) -> JobFailure:
        self.stop()
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if "Gloo" not in line]
        return JobFailure("\n".join([why, *lines[-30:]]))

    def stop(self) -> None:
        """Ends the job at once."""
        self._launcher.terminate()
        try:
            self._launcher.wait(20)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()

    def close(self) -> collections.Counter[str]:
        """Ends the job and returns how many collectives of each op process 0 ran on SHMEM, {} if it had failed."""
        with contextlib.suppress(OSError):
            for stream in self._streams:
                pickle.dump(None, stream)
                stream.flush()
        try:
            self._launcher.wait(30)
        except subprocess.TimeoutExpired:
            self.stop()
        calls: collections.Counter[str] = collections.Counter()
        for number, op in _CALLS.findall(self._log.read_text(errors="replace")):
            calls[op] += int(number)
        self._folder.cleanup()
        return calls

    def __enter__(self) -> RandomJob:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
