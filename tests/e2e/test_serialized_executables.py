"""Serialised executables with SHMEM calls run in a job of the same shape, and refuse to load in any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import JobRun, run_job

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("executables")
    file = f"{directory}/{{rank}}"
    job = run_job("worker_serialized.py", ["write", file], ranks=2, results=directory / "results")
    assert job.exit_code == 0, job.output
    return file


def _load(file: str, results: Path, *words: str, **job: object) -> JobRun:
    options: dict[str, object] = {"ranks": 2, "XLA_SHMEM_DEADLINE": "10"} | job
    return run_job("worker_serialized.py", ["load", file, *words], results=results, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("who", ["all", "one"])
def test_loads_and_runs_in_a_job_of_the_same_shape(written: str, tmp_path: Path, who: str) -> None:
    job = _load(written, tmp_path, who)
    assert job.exit_code == 0, job.output
    assert [job.result(rank) for rank in (0, 1)] == [{"loaded": True}] * 2


def test_refuses_to_load_with_the_flag_off(written: str, tmp_path: Path) -> None:
    job = _load(written, tmp_path, flag=False)
    for rank in (0, 1):
        assert "xla_shmem." in str(job.result(rank)["error"])


def test_refuses_to_load_in_a_job_with_another_number_of_processes(written: str, tmp_path: Path) -> None:
    job = _load(written.replace("{rank}", "0"), tmp_path, ranks=3)
    for rank in range(3):
        error = str(job.result(rank)["error"])
        assert "compiled for another arrangement of processes, hosts or devices" in error
        assert "compile it again here" in error


def test_refuses_to_load_with_other_devices_per_process(written: str, tmp_path: Path) -> None:
    job = _load(written, tmp_path, devices=2)
    for rank in (0, 1):
        assert "compiled for another arrangement of processes, hosts or devices" in str(job.result(rank)["error"])
