"""Where the collectives of a job on several hosts go: within a host to SHMEM, and what crosses hosts to gloo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from host_jobs import HostsRun, run_job_on_hosts

pytestmark = pytest.mark.timeout(150)

RANKS = (2, 2)
GROUPS = {"within": [[0, 1], [2, 3]], "across": [[0, 2], [1, 3]], "all": [[0, 1, 2, 3]]}
#: In units of the operand, what gloo's ring makes each host send; its headers and the meeting of ranks take up to 5 %.
SENT_BY_GLOO = {"within": 0, "across": 2, "all": 1.5}


def _run(results: Path, *, flag: bool) -> HostsRun:
    run = run_job_on_hosts("worker_groups.py", [json.dumps(GROUPS)], ranks=RANKS, results=results, flag=flag)
    assert run.job.exit_code == 0, run.job.output[-6000:]
    assert run.left == [[], []]
    return run


def _check(run: HostsRun, kind: str, ours: list[str], left: list[str]) -> None:
    for rank, report in run.job.reports_of(kind).items():
        assert (report["ours"], report["left"]) == (ours, left), (kind, rank)
        assert report["sent_of_operand"] == pytest.approx(SENT_BY_GLOO[kind], rel=0.05, abs=0.05), (kind, rank)


def test_stock_jobs_send_on_the_network_between_hosts_only(tmp_path: Path) -> None:
    run = _run(tmp_path, flag=False)
    for kind in GROUPS:
        _check(run, kind, [], ["all-reduce"])


def test_groups_within_a_host_go_to_shmem_and_others_stay_whole(tmp_path: Path) -> None:
    run = _run(tmp_path, flag=True)
    _check(run, "within", ["all_reduce"], [])
    _check(run, "across", [], ["all-reduce"])
    _check(run, "all", [], ["all-reduce"])
    for rank, report in run.job.reports_of("host").items():
        first = rank // 2 * 2
        assert (report["name"], report["mapped"]) == (f"host{rank // 2}", [first, first + 1])
