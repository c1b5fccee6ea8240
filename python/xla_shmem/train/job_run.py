"""Runs a training job in processes of this machine and follows its log."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xla_shmem.launch.launcher import GRACE as SHORT_GRACE
from xla_shmem.launch.launcher_process import LAUNCHER, cpu_environment, last_lines, stop
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_folder import newest_checkpoint
from xla_shmem.train.step_log import LOG_NAME, LogFollower, StepRecord, forget_records, read_records

#: Seconds without a finished step after which a run counts as stuck; the first step includes compilation.
STUCK_AFTER = 180.0

#: Seconds for a step to end and a checkpoint to be written after the job has been asked to stop.
GRACE = 60.0

#: The program of the ranks, up to its arguments.
TRAINER = (sys.executable, "-m", "xla_shmem.train.trainer")

_RING_PARTS = (sys.executable, "-m", "xla_shmem.compare.ring_parts")

# Carries the single elements of a ring that waits (`ring_kinds`) over SHMEM, and no block.
_SINGLE_ELEMENTS = "collective-permute<16"

# All ranks would write the same dump, so rank 0 alone gets the flags for it.
_RANK_0_DUMPS = 'test "$XLA_SHMEM_LOCAL_RANK" = 0 && export XLA_FLAGS="${XLA_FLAGS-} $1"; shift; exec "$@"'


class RunError(Exception):
    """A run did not come to its end; the message says why and shows the last lines of its output."""


class Variant(enum.Enum):
    """How a run differs from another of the same job."""

    SHMEM = "SHMEM"
    STOCK = "stock"
    RING_ON_SHMEM = "ring on SHMEM"
    RING_ON_STOCK = "ring on stock"

    @property
    def flag(self) -> bool:
        """Whether the flag is on."""
        return self is not Variant.STOCK

    @property
    def ops(self) -> str | None:
        """What may leave the default backend (`XLA_SHMEM_OPS`), if the variant fixes it.

        In the runs that take the ring apart only the transport of the ring's blocks differs. What sums of gradients
        over gloo take varies from step to step by more than a ring's transfers take in all.
        """
        rings = {Variant.RING_ON_SHMEM: "collective-permute", Variant.RING_ON_STOCK: _SINGLE_ELEMENTS}
        return f"all-reduce,{rings[self]}" if self in rings else None

    @property
    def program(self) -> Sequence[str]:
        """What its ranks run: the trainer, or the one that takes the ring apart (`ring_parts`)."""
        return TRAINER if self in (Variant.SHMEM, Variant.STOCK) else _RING_PARTS


def run_variant(variant: Variant, config: TrainConfig, on_step: Callable[[StepRecord], None]) -> list[StepRecord]:
    """Trains on CPU processes from the beginning, with the flag on or off whatever the environment says.

    The job's folder also gets `hlo/` with rank 0's compiled training step. Ranks that are to stop while they compile
    are not waited for. Otherwise as `run_job`.
    """
    folder = Path(config.output)
    dump = folder / "hlo"
    shutil.rmtree(dump, ignore_errors=True)
    dump_flags = f"--xla_dump_to={dump} --xla_dump_hlo_module_re=.*train_step.* --xla_dump_hlo_as_proto"
    environment = cpu_environment(os.environ, flag=variant.flag)
    if variant.ops is not None:
        environment["XLA_SHMEM_OPS"] = variant.ops
    try:
        return run_job(
            config,
            on_step,
            name=f"the {variant.value} run",
            program=["/bin/sh", "-c", _RANK_0_DUMPS, "sh", dump_flags, *variant.program],
            environment=environment,
            stuck_after=STUCK_AFTER,
            grace=SHORT_GRACE,
        )
    finally:
        _keep_compiled_modules(dump)


def run_job(
    config: TrainConfig,
    on_step: Callable[[StepRecord], None],
    *,
    name: str = "the job",
    program: Sequence[str] = TRAINER,
    environment: Mapping[str, str] | None = None,
    stuck_after: float = float("inf"),
    grace: float = GRACE,
) -> list[StepRecord]:
    """Trains through `xla-shmem launch` with one process per device.

    Args:
      config: the job; its folder gets `steps.jsonl` and `output.log` of all ranks.
      on_step: called with every record as it arrives, first with those of a job that goes on.
      name: of the job, for messages.
      program: what the ranks run, up to the arguments.
      environment: of the ranks; by default this process's.
      stuck_after: seconds without a finished step after which the job is stopped.
      grace: seconds for a step to end and a checkpoint to be written after the job has been asked to stop.

    Returns:
      The records of all steps.

    Raises:
      RunError: a rank failed, or no step was finished for too long.
    """
    folder = Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    log, output = folder / LOG_NAME, folder / "output.log"
    forget_records(log, newest_checkpoint(config) or 0)
    launcher = (*LAUNCHER, "-n", str(config.devices), "--devices-per-process", "1", "--grace", str(grace))
    with output.open("wb") as sink:
        job = subprocess.Popen(
            [*launcher, "--", *program, *config.arguments()],
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops the job
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
    """Reports steps until the job ends; returns what is wrong with it if it does not."""
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


def _keep_compiled_modules(dump: Path) -> None:
    """Removes what else XLA:CPU dumps: hundreds of files of LLVM IR and machine code no flag turns off."""
    for file in dump.glob("*"):
        if file.is_dir():
            shutil.rmtree(file)
        elif not file.match("*_after_optimizations.hlo.pb"):
            file.unlink()
