"""Jobs of JAX processes with emulated GPUs, started as users start them: with `xla-shmem launch`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from emulator import Emulator
from job_runs import JobRun, run_job

HERE = Path(__file__).resolve().parent


def run_emulated(
    emulator: Emulator,
    worker: str,
    arguments: Sequence[str] = (),
    *,
    ranks: int,
    devices: int = 1,
    results: Path,
    flags: Sequence[str] = (),
    flag: bool = True,
    timeout: float = 150,
    grace: float = 1.0,
    cold: bool = False,
    **environ: str,
) -> JobRun:
    """Runs `worker` (a file beside this one) on `ranks` processes with `devices` emulated GPUs each.

    Args:
      flags: XLA_FLAGS besides those that the emulator needs.
      flag: whether the flag that turns xla-shmem on is set.
      grace: seconds that the other ranks have to end by themselves when one has failed.
      cold: as of `run_job`.
      environ: more variables.
    """
    variables = emulator.variables(ranks * devices, flags)
    variables["PYTHONPATH"] = os.pathsep.join([variables["PYTHONPATH"], str(HERE), str(HERE.parent / "e2e")])
    return run_job(
        str(HERE / worker),
        arguments,
        ranks=ranks,
        devices=devices,
        results=results,
        flag=flag,
        timeout=timeout,
        grace=grace,
        cold=cold,
        **(variables | environ),
    )
