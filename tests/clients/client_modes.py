"""The three ways in which a client runs: on stock JAX, and with the flag, for the default ops and for all ops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_shmem.launch.launcher_process import LAUNCHER, cpu_environment


@dataclass(frozen=True)
class Mode:
    """A way to run a client.

    Attributes:
      name: for reports and names of folders.
      flag: whether the flag is set.
      ops: value of ``XLA_SHMEM_OPS``.
    """

    name: str
    flag: bool
    ops: str = "default"

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The environment of this process without options of xla-shmem, for ranks on the CPU that print statistics.

        Args:
          extra: further variables; its ``XLA_FLAGS`` come before the flag.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_", "OMPI_"))}
        options = {"XLA_SHMEM_OPS": self.ops, "XLA_SHMEM_STATS": "1"}
        return cpu_environment(kept | dict(extra), flag=self.flag) | options


STOCK = Mode("stock", flag=False)
DEFAULT_OPS = Mode("default-ops", flag=True)
ALL_OPS = Mode("all-ops", flag=True, ops="all")
MODES = (STOCK, DEFAULT_OPS, ALL_OPS)


def run_program(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, timeout: float, cwd: Path | None = None
) -> int:
    """Runs a program to its end; its output goes to ``folder/output.txt``.

    Args:
      folder: is created.
      timeout: seconds, after which the program is killed and the result is -9.

    Returns:
      The exit code of the program.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.txt").open("wb") as sink:
        program = subprocess.Popen(command, env=environment, stdout=sink, stderr=subprocess.STDOUT, cwd=cwd)
        try:
            return program.wait(timeout)
        except subprocess.TimeoutExpired:
            return -9
        finally:
            program.kill()
            program.wait()


def python_ranks(ranks: int, *arguments: str) -> list[str]:
    """The command that runs Python with these arguments as local ranks."""
    return [*LAUNCHER, "-n", str(ranks), "--", sys.executable, *arguments]
