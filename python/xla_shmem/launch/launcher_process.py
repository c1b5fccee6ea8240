"""`xla-shmem launch` as a child process of a command: how it is started, stopped, and quoted if it fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from xla_shmem.errors import UserError
from xla_shmem.launch.launcher import GRACE, SAYS
from xla_shmem.xla_flags import FLAG, take_flag

#: `xla-shmem launch`, also from a checkout where the command is not on PATH.
LAUNCHER = (sys.executable, "-m", "xla_shmem", "launch")

_LINES_SHOWN = 25


def cpu_environment(environ: Mapping[str, str], *, flag: bool) -> dict[str, str]:
    """Returns an environment for ranks on the CPU, with the flag on or off.

    Raises:
      UserError: `XLA_FLAGS` gives the flag a value that is not a bool.
    """
    return _with_flag(environ, flag) | {"JAX_PLATFORMS": "cpu"}


def gpu_environment(environ: Mapping[str, str], *, flag: bool, shared: bool) -> dict[str, str]:
    """Returns an environment for ranks on GPUs whose memory several jobs use, with the flag on or off.

    Args:
      shared: whether all ranks use the first GPU.

    Raises:
      UserError: as for `cpu_environment`.
    """
    variables = {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return _with_flag(environ, flag) | variables | ({"JAX_LOCAL_DEVICE_IDS": "0"} if shared else {})


def _with_flag(environ: Mapping[str, str], flag: bool) -> dict[str, str]:
    environment = dict(environ)
    try:
        was_on = take_flag(environment)
    except ValueError as error:
        raise UserError(str(error)) from None
    if was_on:
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {FLAG}=false".strip()
        take_flag(environment)  # removes the marker, by which child processes would inherit the flag
    if flag:
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {FLAG}=true".strip()
    return environment


def stop(job: subprocess.Popen[bytes], grace: float = GRACE) -> None:
    """Ends the job if it still runs; its launcher forwards the signal to the ranks and cleans up.

    Args:
      job: the launcher.
      grace: seconds that the launcher gives the ranks; this function waits twice as long. Ctrl-C ends the wait.
    """
    if job.poll() is not None:
        return
    job.terminate()
    try:
        job.wait(timeout=2 * grace)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        job.kill()  # the guard of `xla-shmem launch` ends the ranks
        job.wait()


def last_lines(output: Path) -> str:
    """Returns the last lines of a job's output, indented, after all earlier lines of its launcher.

    The launcher names the rank that failed first. Ranks that fail after it may print more lines than are shown.
    """
    lines = output.read_text(errors="replace").splitlines()
    end = max(0, len(lines) - _LINES_SHOWN)
    shown = [line for line in lines[:end] if line.startswith(SAYS)] + lines[end:]
    return "\n".join(f"  {line}" for line in shown) or "  (nothing was printed)"
