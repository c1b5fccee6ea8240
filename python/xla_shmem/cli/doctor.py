"""``xla-shmem doctor``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from xla_shmem.doctor.diagnosis import diagnose
from xla_shmem.doctor.gather import gather
from xla_shmem.doctor.report import print_json, print_report


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print facts and conclusions as one JSON object.")
@click.option(
    "--job",
    metavar="JOB",
    help="Look at a job instead: `last`, the beginning of its key, or the directory of its flight records.",
)
def doctor_command(as_json: bool, job: str | None) -> None:
    """Show whether the flag will work here, and the first thing to fix.

    Looks at GPUs, driver and NVLink, NVSHMEM, NVRTC and NCCL, JAX and its CUDA plugin, shared memory and the
    environment, and starts none of them. The exit code is 0 if the flag works on the CPU or the GPU, else 1.

    With --job: where each PE of a CPU job is, running, hanging or crashed, who waits for whom and who never arrived.
    The exit code is 0 if nobody waits for a PE that is missing and the job has not failed, else 1.

    \b
    Examples:
      xla-shmem doctor
      xla-shmem doctor --json | jq .first.fix
      xla-shmem doctor --job last
    """
    if job is not None:
        _doctor_job(job, as_json)
    facts = gather()
    diagnosis = diagnose(facts)
    (print_json if as_json else print_report)(facts, diagnosis)
    sys.exit(0 if diagnosis.works else 1)


def _doctor_job(job: str, as_json: bool) -> None:
    from xla_shmem.postmortem.diagnosis import diagnose_job
    from xla_shmem.postmortem.report import print_job_json, print_job_report
    from xla_shmem.runtime.flight_records import RecordError, read_job

    directory = _find_job(job)
    try:
        diagnosis = diagnose_job(read_job(directory), time.monotonic())
    except RecordError as error:
        raise click.ClickException(str(error)) from None
    (print_job_json if as_json else print_job_report)(directory, diagnosis)
    sys.exit(1 if diagnosis.failures or any(stuck.missing for stuck in diagnosis.stuck) else 0)


def _find_job(job: str) -> Path:
    from xla_shmem import options
    from xla_shmem.runtime.flight_records import job_directories, records_root

    if "/" in job:
        return Path(job)
    setting = options.resolve().records
    directories = job_directories(setting)
    found = [path for path in directories if job == "last" or path.name.startswith(job)]
    if not found:
        have = ", ".join(path.name[:8] for path in directories[:8]) or "none"
        raise click.ClickException(
            f"no job {job} in {records_root(setting)}: there are {have}. Jobs that end well leave no records."
        )
    if job != "last" and len(found) > 1:
        raise click.ClickException(f"{job} is the beginning of {len(found)} jobs; give more of the key.")
    return found[0]
