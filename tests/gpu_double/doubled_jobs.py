"""Jobs of real processes on the doubles of NVIDIA's libraries."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHM = Path("/dev/shm")


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


def run_job(
    double: Path,
    worker: str,
    processes: int,
    directory: Path,
    *arguments: str,
    only: dict[int, dict[str, str]] | None = None,
    time_limit: float = 60,
    **environ: str,
) -> list[Ended]:
    """Runs `worker` (a file beside this one) as a job; returns how its processes ended, by number.

    Args:
      double: the directory of the fixture.
      only: environment of single processes.
      environ: environment of all of them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    job = secrets.token_hex(8)
    children = []
    for process in range(processes):
        own = _environment(double, directory) | {"NVSHMEM_DOUBLE_JOB": job} | environ | (only or {}).get(process, {})
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
    ended = [_ended(child, directory, process) for process, child in enumerate(children)]
    left = [path.name for path in SHM.glob(f"xla_shmem.*.{job}*")]
    assert not left, f"left in /dev/shm: {left}"
    return ended


def reports(ended: Sequence[Ended]) -> list[Any]:
    """Returns the reports of the processes. All of them must have succeeded."""
    for process, one in enumerate(ended):
        assert one.exit_code == 0, f"process {process} ended with {one.exit_code}:\n{one.output}"
    return [one.report for one in ended]


def _environment(double: Path, directory: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_SHMEM_", "NVSHMEM_"))}
    return inherited | {
        "LD_LIBRARY_PATH": str(double),
        "PYTHONPATH": os.pathsep.join([str(double), str(HERE), os.environ.get("PYTHONPATH", "")]),
        "XLA_SHMEM_NVSHMEM_LIBRARY": str(double / "libnvshmem_host.so.3"),
        "DRIVER_DOUBLE": "hgx",
        "DRIVER_DOUBLE_GPUS": "4",
        "JOB_DIRECTORY": str(directory),
    }


def _ended(child: subprocess.Popen[bytes], directory: Path, process: int) -> Ended:
    report = directory / f"report.{process}"
    return Ended(
        child.wait(),
        json.loads(report.read_text()) if report.exists() else None,
        (directory / f"output.{process}").read_text(errors="replace"),
    )
