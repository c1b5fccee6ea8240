"""``xla-shmem launch``."""

from __future__ import annotations

import errno
import math
import os
import sys

import click

from xla_shmem.cli.job_options import bind_option, devices_option, num_ranks_option
from xla_shmem.errors import UserError
from xla_shmem.launch.launcher import GRACE, launch
from xla_shmem.xla_flags import read_flag


@click.command("launch", context_settings={"allow_interspersed_args": False})
@num_ranks_option()
@devices_option(": K CPU devices, or GPUs rank·K to rank·K+K-1.  [default: 1 GPU, or JAX's own number of CPU devices]")
@click.option("--prefix/--no-prefix", default=True, show_default=True, help="Put '[rank] ' before each output line.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=GRACE,
    show_default=True,
    metavar="SECONDS",
    help=f"Time between a signal to this process and SIGKILL to its ranks; at most {GRACE:g} after a rank has failed.",
)
@bind_option(", an equal share.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def launch_command(
    num_ranks: int, devices_per_process: int | None, prefix: bool, grace: float, bind: bool, command: tuple[str, ...]
) -> None:
    """Run COMMAND as N local ranks.

    In each rank jax.distributed.initialize() works without arguments. Ranks use the GPUs if JAX finds enough
    of them; set JAX_PLATFORMS=cpu to stay on the CPU. Ranks have no stdin.

    The first rank that fails stops the others: SIGTERM to their process groups, SIGKILL after 5 seconds. The
    exit code is that of the first rank that failed, or 128 plus the signal that killed it; 2 if nothing was started.
    The job's shared memory is always unlinked.

    \b
    Examples:
      xla-shmem launch -n 4 -- python train.py --steps 100
      xla-shmem launch -n 2 --devices-per-process 4 -- python train.py
    """
    if math.isnan(grace):
        raise UserError("--grace nan: must be a number of seconds, or inf.")
    try:
        read_flag(os.environ)
    except ValueError as error:
        raise UserError(str(error)) from None
    try:
        code = launch(
            command, num_ranks, devices_per_process=devices_per_process, prefix=prefix, grace=grace, bind=bind
        )
    except ValueError as error:
        raise UserError(f"--bind: {error}") from None
    except OSError as error:
        raise UserError(_why_not_started(command[0], error)) from None
    sys.exit(code)


def _why_not_started(program: str, error: OSError) -> str:
    interpreter = f"or name its interpreter first: python {program}."
    if isinstance(error, FileNotFoundError) or not program:
        return f"cannot run {program!r}: there is no such program; give its path, or add its folder to PATH."
    if isinstance(error, PermissionError):
        return f"cannot run {program!r}: it is no executable file; make it one with chmod +x, {interpreter}"
    if error.errno == errno.ENOEXEC:
        return f"cannot run {program!r}: it is no program; give a script a first line such as #!/bin/sh, {interpreter}"
    return f"cannot run {program!r}: {error.strerror}."
