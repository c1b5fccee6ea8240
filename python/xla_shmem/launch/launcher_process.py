"""Jobs that a command runs in processes of their own: how they are started, stopped, and quoted when they fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from xla_shmem.launch.launcher import GRACE, SAYS
from xla_shmem.xla_flags import FLAG, take_flag

#: `xla-shmem launch`, also from a checkout where the command is not on PATH.
LAUNCHER = (sys.executable, "-c", "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')", "launch")

_LINES_SHOWN = 25


def cpu_environment(environ: Mapping[str, str], *, flag: bool) -> dict[str, str]:
    """An environment for ranks on the CPU, with the flag on or off whatever it was.

    Raises:
      ValueError: `XLA_FLAGS` gives the flag a value that is not a bool.
    """
    environment = dict(environ)
    if take_flag(environment):
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {FLAG}=false".strip()
        take_flag(environment)  # off: clears the mark by which child processes inherit an earlier choice
    if flag:
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {FLAG}=true".strip()
    environment["JAX_PLATFORMS"] = "cpu"
    return environment


def stop(job: subprocess.Popen[bytes], grace: float = GRACE) -> None:
    """Ends the job if it still runs; its launcher passes the signal on to the ranks and cleans up.

    Args:
      job: the launcher.
      grace: seconds that it leaves the ranks, twice of which it has itself. Ctrl-C ends the wait.
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
    """The end of what a job printed, indented, after what its launcher said before: a rank that the end of another one
    takes down may print more than is shown here."""
    lines = output.read_text(errors="replace").splitlines()
    end = max(0, len(lines) - _LINES_SHOWN)
    shown = [line for line in lines[:end] if line.startswith(SAYS)] + lines[end:]
    return "\n".join(f"  {line}" for line in shown) or "  (nothing was printed)"
