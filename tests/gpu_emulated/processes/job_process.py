"""One process of a job without JAX: the agreement and start of its `GpuJob`, and notes for the others and the test."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from file_store import FileStore

from xla_shmem.options import resolve
from xla_shmem.runtime.gpu_job import GpuJob
from xla_shmem.runtime.job_topology import JobTopology

DIRECTORY = Path(os.environ["JOB_DIRECTORY"])
PROCESS, PROCESSES = int(sys.argv[1]), int(sys.argv[2])
STORE = FileStore(DIRECTORY / "notes")


def report(value: Any) -> None:
    """Writes this process's report for the test."""
    (DIRECTORY / f"report.{PROCESS}").write_text(json.dumps(value))


def meet(where: str) -> None:
    """Waits until all processes have called this."""
    STORE.set(f"{where}.{PROCESS}", "")
    for process in range(PROCESSES):
        STORE.wait(f"{where}.{process}")


def start_job(ordinals: Sequence[int] | None = None, timeout_s: float = 20, **changed: Any) -> GpuJob:
    """Starts the GPU job of this process, by default on GPU number PROCESS.

    Args:
      changed: options by name, past their limits. The arena is so small that large transfers go round its slots.
    """
    options = dataclasses.replace(resolve(), **{"heap_size": 512 << 10} | changed)
    job = GpuJob(options, STORE, PROCESS, PROCESSES, timeout_s=timeout_s)
    job.start([PROCESS] if ordinals is None else ordinals, cuda=13)
    return job


def job_topology(job: GpuJob, gpus_of: Sequence[int] | None = None) -> JobTopology:
    """Returns the topology of a job whose processes have so many GPUs, by default one each."""
    counts = gpus_of or [1] * PROCESSES
    processes = [process for process, count in enumerate(counts) for _ in range(count)]
    # As JAX may number them: ids are not in the order of processes.
    return job.topology(
        [SimpleNamespace(id=100 - index, process_index=process) for index, process in enumerate(processes)]
    )


def leave() -> None:
    """Ends this process once all have called this: streams still run, and no exit handler may wait for a peer."""
    meet("leave")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
