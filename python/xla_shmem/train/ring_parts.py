"""One rank of a job that trains twice at once: with its ring, and with a ring that sends nothing (`silent_ring`).

The two take turns step by step, and whoever was first is second in the next turn. So both steps of a pair meet the
same machine, the same processes and the same memory, and their difference is free of what differs from run to run.
Losses of the silent one mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jax

from xla_shmem.train.config import TrainConfig
from xla_shmem.train.config_options import config_options, from_options
from xla_shmem.train.corpus import Tokens
from xla_shmem.train.silent_ring import silenced
from xla_shmem.train.step_log import LOG_NAME, SILENT_LOG_NAME, StepLog, StepRecord
from xla_shmem.train.trainer import Stopped, print_step, start_rank, train


def pairs(config: TrainConfig, tokens: Tokens) -> Iterator[tuple[StepRecord, StepRecord]]:
    """Yields each step's record of the job as it is, and of the job with a silent ring.

    Raises:
      ValueError, Stopped: as `trainer.train`.
    """
    sending, silent = train(config, tokens), _with_a_silent_ring(config, tokens)
    for step in range(config.steps):
        if step % 2:
            without = next(silent)
            yield next(sending), without
        else:
            yield next(sending), next(silent)


def _with_a_silent_ring(config: TrainConfig, tokens: Tokens) -> Iterator[StepRecord]:
    records = train(config, tokens)
    while True:
        with silenced():  # the first step is traced in here
            record = next(records, None)
        if record is None:
            return
        yield record


@click.command()
@config_options()
def main(config: Path | None, **options: Any) -> None:
    """One rank of a job that `xla-shmem compare` starts."""
    try:
        job = from_options(config, options)
        tokens = start_rank(job)
        logs = StepLog(Path(job.out) / SILENT_LOG_NAME), StepLog(Path(job.out) / LOG_NAME)
        for sending, silent in pairs(job, tokens):
            if jax.process_index() == 0:
                # Who follows the job's log finds the other one as long.
                for log, record in zip(logs, (silent, sending), strict=True):
                    log.append(record)
                print_step(sending)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    except Stopped as stopped:
        click.echo(str(stopped))


if __name__ == "__main__":
    main()
