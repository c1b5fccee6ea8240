"""Where the collectives of a job on several hosts go: within a host to SHMEM, and what crosses hosts to gloo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from host_jobs import HostsRun, run_job_on_hosts

pytestmark = pytest.mark.timeout(150)

RANKS = (2, 2)
GROUPS = {"within": [[0, 1], [2, 3]], "across": [[0, 2], [1, 3]], "all": [[0, 1, 2, 3]]}
#: In units of the operand, what each host sends. Headers and the meeting of ranks take up to 5 %.
SENT_BY_GLOO = {"within": 0, "across": 2, "all": 1.5}
SENT_IN_PARTS = SENT_BY_GLOO | {"all": 1}


def _run(results: Path, *, flag: bool, **environ: str) -> HostsRun:
    run = run_job_on_hosts("worker_groups.py", [json.dumps(GROUPS)], ranks=RANKS, results=results, flag=flag, **environ)
    assert run.job.exit_code == 0, run.job.output[-6000:]
    assert run.left == [[], []]
    return run


def _check(run: HostsRun, kind: str, ours: list[str], left: list[str], sent: dict[str, float] = SENT_BY_GLOO) -> None:
    reports = run.job.reports_of(kind)
    assert len(reports) == sum(RANKS), run.job.output[-6000:]
    for rank, report in reports.items():
        assert (report["ours"], report["left"]) == (ours, left), (kind, rank)
        assert report["sent_of_operand"] == pytest.approx(sent[kind], rel=0.05, abs=0.05), (kind, rank)


def test_stock_jobs_send_on_the_network_between_hosts_only(tmp_path: Path) -> None:
    run = _run(tmp_path, flag=False)
    for kind in GROUPS:
        _check(run, kind, [], ["all-reduce"])


def test_groups_within_a_host_go_to_shmem_and_others_may_stay_whole(tmp_path: Path) -> None:
    run = _run(tmp_path, flag=True, XLA_SHMEM_HIERARCHICAL="off")
    _check(run, "within", ["all_reduce"], [])
    _check(run, "across", [], ["all-reduce"])
    _check(run, "all", [], ["all-reduce"])
    for rank, report in run.job.reports_of("host").items():
        first = rank // 2 * 2
        assert (report["name"], report["mapped"]) == (f"host{rank // 2}", [first, first + 1])


def test_groups_with_several_ranks_on_each_host_are_divided_and_send_less(tmp_path: Path) -> None:
    run = _run(tmp_path, flag=True, XLA_SHMEM_HIERARCHICAL="on")
    _check(run, "within", ["all_reduce"], [], SENT_IN_PARTS)
    _check(run, "across", [], ["all-reduce"], SENT_IN_PARTS)
    _check(run, "all", ["reduce_scatter_parts", "all_gather_parts"], ["all-reduce"], SENT_IN_PARTS)
