"""A rank killed on one host ends the job on all hosts in time, and the errors say which rank or host is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from host_jobs import HostsRun, run_job_on_hosts

pytestmark = pytest.mark.timeout(120)

#: Rank 3, the last on host1, is killed.
KILLED_HOST = "10.77.0.2"
_EXITED = "process 3 (PE 3) has exited"


def _run(results: Path, groups: list[list[int]]) -> HostsRun:
    run = run_job_on_hosts("worker_host_failures.py", [json.dumps(groups)], results=results, grace=10)
    assert run.job.exit_code == 128 + 9, run.job.output[-6000:]
    assert "rank 3 was killed by SIGKILL; stopping the others" in run.job.output
    assert run.left == [[], []]
    for reports in run.job.results.values():
        assert float(str(reports[0]["seconds"])) < 10, reports
    return run


def test_a_rank_of_a_group_within_a_host_is_named_by_the_others_of_the_group(tmp_path: Path) -> None:
    run = _run(tmp_path, [[0, 1], [2, 3]])
    assert _EXITED in str(run.job.result(2)["error"])


def test_a_rank_of_a_group_across_hosts_is_named_by_its_host_or_number_to_one_rank_at_least(tmp_path: Path) -> None:
    run = _run(tmp_path, [[0, 1, 2, 3]])
    errors = [str(run.job.result(rank)["error"]) for rank in (0, 1, 2)]
    assert any(KILLED_HOST in error or _EXITED in error for error in errors), errors
    # A rank whose collective has failed closes its connections. gloo may name its host to a rank that fails later.
    assert all(re.search(r"10\.77\.0\.[12]\b", error) or _EXITED in error for error in errors), errors
