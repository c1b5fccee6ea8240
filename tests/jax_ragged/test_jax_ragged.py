"""JAX's own tests of ragged all-to-all pass on CPU, once they no longer skip it.

JAX_TESTS=.../jax/tests make test-jax-ragged
"""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import JobRun, run_job

pytestmark = pytest.mark.timeout(960)


def _run(file: Path, results: Path, ranks: int, devices: int, *names: str, flag: bool = True) -> JobRun:
    arguments = (str(file), *names)
    # Each test compiles anew, which takes minutes on a loaded machine.
    return run_job(
        "worker_jax_ragged.py", arguments, ranks=ranks, devices=devices, results=results, flag=flag, timeout=900
    )


def test_they_pass_in_one_process_and_skip_nothing(ragged_tests: Path, tmp_path: Path) -> None:
    job = _run(ragged_tests, tmp_path, 1, 8)
    found = job.result(0)
    assert (found["wrong"], found["skipped"]) == ({}, {}), job.output
    assert int(str(found["tests"])) >= 12, job.output
    assert int(str(found["calls"])) >= 10, job.output


def test_stock_fails_them(ragged_tests: Path, tmp_path: Path) -> None:
    found = _run(ragged_tests, tmp_path, 1, 8, flag=False).result(0)
    assert isinstance(found["wrong"], dict)
    refused = [name for name, text in found["wrong"].items() if "is not supported by XLA:CPU" in text]
    assert len(refused) >= 8, found


# Each test takes the first devices of the job, so a job has as many as the test asks for. The other tests read whole
# arrays in one process, which JAX does not allow between processes.
@pytest.mark.parametrize(
    ("ranks", "names"),
    [
        (2, ("test_ragged_all_to_all_single_axis_name", "degenerate_groups")),
        (4, ("axis_index_groups_single_axis_name", "test_ragged_all_to_all_vmap_batch")),
    ],
)
def test_they_pass_between_processes(ragged_tests: Path, tmp_path: Path, ranks: int, names: tuple[str, ...]) -> None:
    job = _run(ragged_tests, tmp_path, ranks, 1, *names)
    for rank in range(ranks):
        found = job.result(rank)
        assert (found["wrong"], found["skipped"]) == ({}, {}), job.output
        assert int(str(found["tests"])) >= len(names), job.output
        assert int(str(found["calls"])) >= len(names), job.output
