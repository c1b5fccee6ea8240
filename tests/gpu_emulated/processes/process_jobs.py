"""Jobs of processes without JAX, with emulated GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator import Emulator

HERE = Path(__file__).resolve().parent
GPU_CHECK = HERE.parents[2] / "benchmarks" / "gpu"

#: GPUs of the machine.
GPUS = 4

# The heap's steps of 512 MiB would be filled with garbage in every process.
_SMALL_HEAP = {"NVSHMEM_CUMEM_GRANULARITY": "2M"}


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
      exit_code: negative for a signal.
      report: what it reported, None if it did not get so far.
      output: stdout and stderr.
    """

    exit_code: int
    report: Any
    output: str


def run_processes(
    emulator: Emulator,
    worker: str,
    processes: int,
    directory: Path,
    *arguments: str,
    only: Mapping[int, Mapping[str, str]] | None = None,
    time_limit: float = 100,
    **environ: str,
) -> list[Ended]:
    """Runs `worker` (a file beside this one) as a job; returns how its processes ended, by number.

    Args:
      only: environment of single processes.
      environ: environment of all of them.
    """
    children = []
    for process in range(processes):
        own = environment(emulator, directory) | environ | dict((only or {}).get(process, {}))
        command = [sys.executable, HERE / worker, str(process), str(processes), *arguments]
        with open(directory / f"output.{process}", "wb") as sink:
            children.append(subprocess.Popen(command, env=own, stdout=sink, stderr=subprocess.STDOUT))
    deadline = time.monotonic() + time_limit
    try:
        for child in children:
            child.wait(max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        pass
    finally:
        for child in children:
            child.kill()
    return [_ended(child, directory, process) for process, child in enumerate(children)]


def environment(emulator: Emulator, directory: Path) -> dict[str, str]:
    """Returns the environment of a process without JAX; its job leaves notes in `directory`."""
    environ = emulator.environment(GPUS, (), JOB_DIRECTORY=str(directory), **_SMALL_HEAP)
    return environ | {"PYTHONPATH": os.pathsep.join([environ["PYTHONPATH"], str(HERE), str(GPU_CHECK)])}


def reports(ended: Sequence[Ended]) -> list[Any]:
    """Returns the reports of the processes. All of them must have succeeded."""
    for process, one in enumerate(ended):
        assert one.exit_code == 0, f"process {process} ended with {one.exit_code}:\n{one.output}"
    return [one.report for one in ended]


def _ended(child: subprocess.Popen[bytes], directory: Path, process: int) -> Ended:
    report = directory / f"report.{process}"
    return Ended(
        child.wait(),
        json.loads(report.read_text()) if report.exists() else None,
        (directory / f"output.{process}").read_text(errors="replace"),
    )
