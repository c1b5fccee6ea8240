"""``xla-shmem doctor``."""

from __future__ import annotations

import sys

import click

from xla_shmem.cli.former_names import json_option, say_new_name
from xla_shmem.cli.postmortem import show_postmortem
from xla_shmem.doctor.diagnosis import diagnose
from xla_shmem.doctor.gather import gather
from xla_shmem.doctor.report import print_json, print_report


@click.command("doctor")
@json_option()
@click.option("--job", metavar="JOB", hidden=True)
def doctor_command(as_json: bool, job: str | None) -> None:
    """Show whether the flag will work here, and the first thing to fix.

    Looks at GPUs, driver and NVLink, NVSHMEM, NVRTC and NCCL, JAX and its CUDA plugin, shared memory and the
    environment, and starts none of them. The exit code is 0 if the flag works on the CPU or the GPU, else 1.

    \b
    Examples:
      xla-shmem doctor
      xla-shmem doctor --json | jq .first.fix
    """
    if job is not None:
        say_new_name("doctor --job", "postmortem")
        show_postmortem(job, as_json)
    facts = gather()
    diagnosis = diagnose(facts)
    (print_json if as_json else print_report)(facts, diagnosis)
    sys.exit(0 if diagnosis.works else 1)
