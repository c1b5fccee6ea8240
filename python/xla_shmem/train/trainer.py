"""Trains a Llama-style decoder with context-parallel ring attention: an ordinary multi-process JAX job.

One process per rank calls `main`; nothing here knows or cares which transport carries the collectives.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jax
import numpy as np
from numpy.typing import NDArray

from xla_shmem.parallel import sharding
from xla_shmem.parallel.mesh import make_mesh
from xla_shmem.parallel.zigzag import zigzag_order
from xla_shmem.train import text
from xla_shmem.train.config import TrainConfig, config_options, from_options
from xla_shmem.train.step import init_state, make_train_step
from xla_shmem.train.step_log import StepRecord, append_record


def train(config: TrainConfig, windows: text.Windows) -> Iterator[StepRecord]:
    """Trains for `config.steps` steps on the devices of the job; yields a record after each.

    Raises:
      ValueError: the mesh does not match the job's devices.
    """
    mesh = make_mesh(config.mesh())
    placement = sharding.tokens(mesh)
    order = zigzag_order(config.sequence, config.context)
    train_step = make_train_step(config, mesh)
    state = init_state(config, mesh)

    def spread(tokens: NDArray[np.int32]) -> jax.Array:
        dealt = tokens[:, order]
        return jax.make_array_from_callback(dealt.shape, placement, lambda index: dealt[index])

    for step in range(config.steps):
        start = time.perf_counter()
        inputs, targets = windows.at(step)
        state, metrics = train_step(state, spread(inputs), spread(targets))
        jax.block_until_ready((state, metrics))  # type: ignore[no-untyped-call]
        seconds = time.perf_counter() - start
        yield StepRecord(step, float(metrics.loss), seconds, inputs.size)


@click.command()
@config_options
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to which rank 0 adds a JSON line per step: step, loss, seconds, tokens.",
)
def main(log: Path | None, **options: Any) -> None:
    """Train a small Llama-style decoder on the sources of Python's standard library, one process per rank."""
    config = from_options(options)
    if config.ranks > 1:
        jax.distributed.initialize()
    tokens = text.read_bytes(text.standard_library_sources())
    try:
        windows = text.Windows(tokens, config.sequence, config.batch, config.seed)
        for record in train(config, windows):
            if jax.process_index() == 0:
                click.echo(f"step {record.step}: loss {record.loss:.4f}, {record.seconds:.3f} s")
                if log is not None:
                    append_record(log, record)
    except ValueError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
