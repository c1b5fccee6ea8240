"""Runs the training job once, on a transport of choice, and follows its log."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from xla_shmem.launcher_process import LAUNCHER, cpu_environment, last_lines, stop
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.step_log import StepRecord, read_records

#: Seconds without a finished step after which a run counts as stuck; the first step includes compilation.
STUCK_AFTER = 180.0

# All ranks would write the same dump, so rank 0 alone gets the flags for it.
_RANK_0_DUMPS = 'test "$XLA_SHMEM_LOCAL_RANK" = 0 && export XLA_FLAGS="${XLA_FLAGS-} $1"; shift; exec "$@"'


class RunError(Exception):
    """A run did not come to its end; the message says why and shows the last lines of its output."""


class Transport(enum.Enum):
    """What carries the collectives of a run."""

    SHMEM = "SHMEM"
    STOCK = "stock"


def run_training(
    config: TrainConfig, transport: Transport, folder: Path, on_step: Callable[[StepRecord], None]
) -> list[StepRecord]:
    """Trains through `xla-shmem launch` with one process per rank.

    Args:
      config: the job.
      transport: what carries its collectives.
      folder: gets `steps.jsonl`, `output.log` of all ranks, and `hlo/` with rank 0's compiled training step.
      on_step: called with every record as it arrives.

    Returns:
      The records of all steps.

    Raises:
      RunError: a rank failed, or no step was finished for `STUCK_AFTER` seconds.
    """
    log, output, dump = folder / "steps.jsonl", folder / "output.log", folder / "hlo"
    folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    shutil.rmtree(dump, ignore_errors=True)
    dump_flags = f"--xla_dump_to={dump} --xla_dump_hlo_module_re=.*train_step.* --xla_dump_hlo_as_proto"
    trainer = (sys.executable, "-m", "xla_shmem.train.trainer", *config.arguments(), f"--log={log}")
    launcher = (*LAUNCHER, "-n", str(config.ranks), "--devices-per-process", "1")
    with output.open("wb") as sink:
        job = subprocess.Popen(
            [*launcher, "--", "/bin/sh", "-c", _RANK_0_DUMPS, "sh", dump_flags, *trainer],
            env=cpu_environment(os.environ, flag=transport is Transport.SHMEM),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops the job
        )
        try:
            problem = _follow(job, log, on_step)
        finally:
            stop(job)
    _keep_compiled_modules(dump)
    records = read_records(log)
    if problem is None and job.returncode:
        problem = f"ended with exit code {job.returncode}"
    if problem is None and len(records) != config.steps:
        problem = "ended early"
    if problem is not None:
        raise RunError(
            f"the {transport.value} run {problem} after {len(records)} of {config.steps} steps. "
            f"Last lines of {output}:\n{last_lines(output)}"
        )
    return records


def _follow(job: subprocess.Popen[bytes], log: Path, on_step: Callable[[StepRecord], None]) -> str | None:
    """Reports steps until the job ends; returns what is wrong with it if it does not."""
    seen = 0
    last_news = time.monotonic()
    while True:
        ended = job.poll() is not None
        for record in read_records(log)[seen:]:
            on_step(record)
            seen += 1
            last_news = time.monotonic()
        if ended:
            return None
        if time.monotonic() - last_news > STUCK_AFTER:
            return f"finished no step for {STUCK_AFTER:.0f} s and was stopped"
        time.sleep(0.1)


def _keep_compiled_modules(dump: Path) -> None:
    """Removes what else XLA:CPU dumps: hundreds of files of LLVM IR and machine code no flag turns off."""
    for file in dump.glob("*"):
        if file.is_dir():
            shutil.rmtree(file)
        elif not file.match("*_after_optimizations.hlo.pb"):
            file.unlink()
