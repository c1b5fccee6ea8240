"""Runs a training job in processes on this machine and follows its log."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from long_context.train.config import TrainConfig
from long_context.train.job_folder import newest_checkpoint
from long_context.train.step_log import LOG_NAME, LogFollower, StepRecord, forget_records, read_records
from xla_shmem.errors import JobError
from xla_shmem.launch.launcher_process import LAUNCHER, last_lines, stop

#: Seconds that a job gets to finish its step and write a checkpoint when it is asked to stop.
GRACE = 60.0

#: The ranks' program without its arguments: the command `train`, which is a rank inside a job.
RANK = (sys.executable, "-m", "long_context.cli.train")


class RunError(JobError):
    """A run failed or stopped early; the message says why and shows the last lines of its output."""


def run_job(
    config: TrainConfig,
    on_step: Callable[[StepRecord], None],
    *,
    name: str = "the job",
    rank: Sequence[str] = RANK,
    environment: Mapping[str, str] | None = None,
    stuck_after: float = float("inf"),
    grace: float = GRACE,
) -> list[StepRecord]:
    """Trains through `xla-shmem launch` with one process per device.

    Args:
      config: the job; its folder gets `steps.jsonl` and `output.log` of all ranks.
      on_step: called with every record; if the job resumes, first with the records of its earlier start.
      name: name of the job in messages.
      rank: the ranks' program without its arguments.
      environment: environment of the ranks; by default this process's.
      stuck_after: seconds without a finished step after which the job is stopped.
      grace: seconds to finish a step and write a checkpoint after a request to stop.

    Returns:
      The records of all steps.

    Raises:
      RunError: a rank failed, or no step finished for `stuck_after` seconds.
    """
    folder = Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    log, output = folder / LOG_NAME, folder / "output.log"
    forget_records(log, newest_checkpoint(config) or 0)
    launcher = (*LAUNCHER, "-n", str(config.devices), "--devices-per-process", "1", "--grace", str(grace))
    with output.open("wb") as sink:
        job = subprocess.Popen(
            [*launcher, "--", *rank, *config.arguments()],
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches only this process, which then stops the job
        )
        try:
            problem = _follow(job, log, on_step, stuck_after)
        finally:
            stop(job, grace)
    records = read_records(log)
    if problem is None and job.returncode:
        problem = f"ended with exit code {job.returncode}"
    if problem is None and len(records) != config.steps:
        problem = "ended early"
    if problem is not None:
        raise RunError(
            f"{name} {problem} after {len(records)} of {config.steps} steps. "
            f"Last lines of {output}:\n{last_lines(output)}"
        )
    return records


def _follow(
    job: subprocess.Popen[bytes], log: Path, on_step: Callable[[StepRecord], None], stuck_after: float
) -> str | None:
    """Reports steps until the job ends. Returns None, or the problem if the job is stuck."""
    follower = LogFollower(log)
    last_news = time.monotonic()
    while True:
        ended = job.poll() is not None
        for record in follower.new_records():
            on_step(record)
            last_news = time.monotonic()
        if ended:
            return None
        if time.monotonic() - last_news > stuck_after:
            return f"finished no step for {stuck_after:.0f} s and was stopped"
        time.sleep(0.1)
