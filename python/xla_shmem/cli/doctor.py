"""``xla-shmem doctor``."""

from __future__ import annotations

import sys

import click

from xla_shmem.doctor.findings import diagnose
from xla_shmem.doctor.gather import gather
from xla_shmem.doctor.printed_findings import print_json, print_report


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def doctor_command(as_json: bool) -> None:
    """Show whether the flag will work here, and the first thing to fix.

    Looks at GPUs, driver and NVLink, NVSHMEM, NVRTC and NCCL, JAX and its CUDA plugin, shared memory and the
    environment, and starts none of them. The exit code is 0 if the flag works on the CPU or the GPU, else 1.

    \b
    Examples:
      xla-shmem doctor
      xla-shmem doctor --json | jq .first.fix
    """
    facts = gather()
    diagnosis = diagnose(facts)
    (print_json if as_json else print_report)(facts, diagnosis)
    sys.exit(0 if diagnosis.works else 1)
