"""Jobs on several hosts, run as `tests/e2e/job_runs.py` runs jobs on one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from job_runs import JobRun, run_ranks
from run_on_hosts import hosts_command

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class HostsRun:
    """The results of a job on several hosts.

    Attributes:
      job: its results.
      left: names that were left in the /dev/shm of each host when the ranks had ended.
      sent: bytes that each host sent to the others during the job.
    """

    job: JobRun
    left: list[list[str]]
    sent: list[int]


def run_job_on_hosts(
    worker: str,
    arguments: Sequence[str] = (),
    *,
    ranks: Sequence[int] = (2, 2),
    rate: str | None = None,
    results: Path,
    flag: bool = True,
    timeout: float = 100,
    grace: float = 1.0,
    **environ: str,
) -> HostsRun:
    """Runs `worker` (a file beside this one) on hosts with so many ranks each; the rest is as for `run_job`."""
    results.mkdir(parents=True, exist_ok=True)
    status = results / "hosts.status"
    start = hosts_command(ranks, rate=rate, status=status, limit=timeout, grace=grace)
    program = [str(HERE / worker), *arguments]
    environ |= {"PYTHONPATH": str(HERE.parent / "e2e")}
    job = run_ranks(start, program, results=results, flag=flag, timeout=timeout + 30, **environ)
    assert status.exists(), f"the hosts were not made:\n{job.output}"
    hosts = json.loads(status.read_text())
    return HostsRun(job, [host["segments"] for host in hosts], [host["sent_bytes"] for host in hosts])
