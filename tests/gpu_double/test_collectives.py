"""The GPU path of whole processes, from the announcement to the handlers, on doubles of NVIDIA's libraries."""

from __future__ import annotations

from pathlib import Path

import doubled_jobs
import pytest
from collective_cases import CASES

# Processes, GPUs, and the calls for puts. The double of NVSHMEM refuses puts between PEs that share a GPU.
JOBS = [(2, 2, "nvshmem"), (2, 2, "driver"), (3, 3, "auto"), (4, 4, "nvshmem"), (4, 2, "auto")]


@pytest.fixture(scope="module")
def outcomes(
    double: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, int, str], dict[str, list[str]]]:
    """The report of each process on each case, by job."""
    found = {}
    for processes, gpus, puts in JOBS:
        environ = {"XLA_SHMEM_GPU_PUTS": puts} | ({"NVSHMEM_DOUBLE": "shared-gpu"} if gpus < processes else {})
        directory = tmp_path_factory.mktemp("job")
        ended = doubled_jobs.run_job(double, "worker_collectives.py", processes, directory, str(gpus), **environ)
        said = doubled_jobs.reports(ended)
        found[processes, gpus, puts] = {name: [outcome[name] for outcome in said] for name in CASES}
    return found


@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job[0]}-on-{job[1]}-{job[2]}")
@pytest.mark.parametrize("name", CASES)
def test_collective(
    name: str, job: tuple[int, int, str], outcomes: dict[tuple[int, int, str], dict[str, list[str]]]
) -> None:
    failures = [f"process {process}: {text}" for process, text in enumerate(outcomes[job][name]) if text]
    assert not failures, "\n".join(failures)
