"""One rank of a job that trains three times side by side, once with each kind of ring (`ring_kinds`).

The three take turns step by step, in every order equally often. The steps of a turn run on the same machine state, in
the same processes and the same memory, so their differences contain no variation from run to run. Only the losses of
the sending ring are meaningful.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import jax

from long_context.compare.ring_ablations import traced_as
from long_context.compare.ring_kinds import Ring
from long_context.train.config import TrainConfig
from long_context.train.config_options import config_options, from_options
from long_context.train.job_tokens import Data
from long_context.train.step_log import StepLog, StepRecord
from long_context.train.trainer import Stopped, print_step, start_rank, train


def turns(config: TrainConfig, data: Data) -> Iterator[Mapping[Ring, StepRecord]]:
    """Yields the records of each step, one for each kind of ring.

    Raises:
      ValueError, Stopped: as `trainer.train`.
    """
    jobs = {ring: _with_ring(ring, config, data) for ring in Ring}
    orders = itertools.cycle(itertools.permutations(Ring))
    for _ in range(config.steps):
        yield {ring: next(jobs[ring]) for ring in next(orders)}


def _with_ring(ring: Ring, config: TrainConfig, data: Data) -> Iterator[StepRecord]:
    records = train(config, data)
    while True:
        with traced_as(ring):  # the first step is traced in here
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
        data = start_rank(job)
        # The job's own log comes last: when it has a record, the other logs have theirs.
        logs = {ring: StepLog(Path(job.output) / ring.log_name) for ring in reversed(Ring)}
        for records in turns(job, data):
            if jax.process_index() == 0:
                for ring, log in logs.items():
                    log.append(records[ring])
                print_step(records[Ring.SENDING])
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    except Stopped as stopped:
        click.echo(str(stopped))


if __name__ == "__main__":
    main()
