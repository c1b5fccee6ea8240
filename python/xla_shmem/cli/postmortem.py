"""``xla-shmem postmortem``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from xla_shmem.cli.job_options import json_option


@click.command("postmortem")
@click.argument("job", metavar="[JOB]", default="last")
@json_option
def postmortem_command(job: str, as_json: bool) -> None:
    """Show which PE of a CPU job waits for which other PE, while the job hangs or after it has crashed.

    JOB is `last` (the default), the beginning of a job's key, or the directory of its flight records. The report says
    of each PE whether its process runs, hangs or has ended, and which PEs never arrived at a collective.

    The exit code is 1 if the job has failed or a PE waits for one that never arrived, 2 if there is no such job.

    \b
    Examples:
      xla-shmem postmortem
      xla-shmem postmortem 3f9a --json
    """
    from xla_shmem.postmortem.job_report import print_job_json, print_job_report
    from xla_shmem.postmortem.who_waits import diagnose_job
    from xla_shmem.runtime.flight_records import read_job

    directory = _find_job(job)
    diagnosis = diagnose_job(read_job(directory), time.monotonic())
    (print_job_json if as_json else print_job_report)(directory, diagnosis)
    sys.exit(1 if diagnosis.failures or any(stuck.missing for stuck in diagnosis.stuck) else 0)


def _find_job(job: str) -> Path:
    from xla_shmem import options
    from xla_shmem.runtime.flight_records import RecordError, job_directories, records_root

    if "/" in job:
        return Path(job)
    setting = options.resolve().records
    directories = job_directories(setting)
    found = [path for path in directories if job == "last" or path.name.startswith(job)]
    if not found:
        have = ", ".join(path.name[:8] for path in directories[:8]) or "none"
        raise RecordError(
            f"no job {job} in {records_root(setting)}: there are {have}. Jobs that end well leave no records."
        )
    if job != "last" and len(found) > 1:
        raise RecordError(f"{job} is the beginning of {len(found)} jobs; give more of the key.")
    return found[0]
