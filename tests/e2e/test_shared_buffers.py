"""Arrays of ranks that `xla-shmem launch` starts lie in memory that their peers map."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import run_job

SMALL, LARGE = 100, 300_000  # elements of 4 bytes


def _reports(results: Path, elements: int, **environ: str) -> list[dict[str, object]]:
    run = run_job("worker_shared_buffers.py", [str(elements)], ranks=2, results=results, cold=True, **environ)
    assert run.exit_code == 0, run.output
    return [run.result(rank) for rank in range(2)]


@pytest.mark.timeout(120)
def test_large_arrays_lie_in_a_file_that_peers_map_and_a_forked_child_writes_to_its_own(tmp_path: Path) -> None:
    expected = {"files": 2, "in_file": [True, True, False], "wrong": 0, "child": True}
    assert _reports(tmp_path, LARGE) == [expected, expected]


@pytest.mark.timeout(120)
@pytest.mark.form
def test_small_arrays_stay_in_private_memory(tmp_path: Path) -> None:
    for report in _reports(tmp_path, SMALL):
        assert report["in_file"] == [False, False, False]


@pytest.mark.timeout(120)
@pytest.mark.form
@pytest.mark.parametrize("environ", [{"LD_PRELOAD": "libm.so.6"}, {"XLA_SHMEM_SINGLE_COPY": "off"}])
def test_without_the_library_all_memory_is_private(tmp_path: Path, environ: dict[str, str]) -> None:
    for report in _reports(tmp_path, LARGE, **environ):
        assert report == {"files": 0, "in_file": [False, False, False], "wrong": 0, "child": True}
