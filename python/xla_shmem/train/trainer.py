"""Trains a Llama-style decoder with context-parallel ring attention: an ordinary multi-process JAX job.

One process per rank calls `main`; nothing here knows or cares which transport carries the collectives.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import jax
import numpy as np
import optax  # type: ignore[import-untyped]
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from numpy.typing import NDArray

from xla_shmem.models import llama
from xla_shmem.models.ring_attention import local_positions, ring_attention, zigzag_order
from xla_shmem.train import text
from xla_shmem.train.config import TrainConfig, config_options, from_options
from xla_shmem.train.step_log import StepRecord, append_record

_SPREAD = P("data", "context")  # type: ignore[no-untyped-call]
_REPLICATED = P()  # type: ignore[no-untyped-call]


class State(NamedTuple):
    """What a step updates; the same on every rank."""

    params: llama.Params
    optimizer: optax.OptState


def make_mesh(config: TrainConfig) -> Mesh:
    """Mesh (data, context) over all devices of the job.

    Raises:
      ValueError: the job has another number of devices.
    """
    if config.ranks != jax.device_count():
        raise ValueError(
            f"mesh data {config.data} x context {config.context} needs {config.ranks} devices, this job has "
            f"{jax.device_count()}; start {config.ranks} ranks or choose --data and --context to match."
        )
    return jax.make_mesh((config.data, config.context), ("data", "context"), axis_types=(AxisType.Auto,) * 2)


def make_optimizer(config: TrainConfig) -> optax.GradientTransformation:
    """AdamW with gradients clipped to norm 1, linear warm-up and cosine decay over the job's steps."""
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=config.learning_rate / (config.warmup + 1),
        peak_value=config.learning_rate,
        warmup_steps=config.warmup,
        decay_steps=max(config.steps, config.warmup + 1),
        end_value=config.learning_rate / 10,
    )
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.1))


def make_train_step(
    config: TrainConfig, mesh: Mesh
) -> Callable[[State, jax.Array, jax.Array], tuple[State, jax.Array]]:
    """The compiled step: (state, inputs, targets) -> (new state, loss).

    Inputs and targets are [batch, sequence] int32 in zig-zag order, spread over (data, context); the state is
    replicated and its buffers are reused.
    """
    model = config.model()
    optimizer = make_optimizer(config)
    attention = functools.partial(ring_attention, axis_name="context")

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(_REPLICATED, _SPREAD, _SPREAD), out_specs=_REPLICATED)
    def loss_and_gradients(
        params: llama.Params, inputs: jax.Array, targets: jax.Array
    ) -> tuple[jax.Array, llama.Params]:
        # Each rank differentiates its own tokens' loss, then all agree on the mean: without the cast,
        # gradients of replicated parameters would be summed inside every layer of the backward scan instead
        # of once at its end.
        params = lax.pcast(params, mesh.axis_names, to="varying")
        positions = local_positions(inputs.shape[1], "context")
        loss = jax.value_and_grad(llama.next_token_loss)
        local = loss(params, inputs, targets, positions, model, attention)
        mean: tuple[jax.Array, llama.Params] = lax.pmean(local, mesh.axis_names)  # type: ignore[no-untyped-call]
        return mean

    @functools.partial(jax.jit, donate_argnums=0)
    def train_step(state: State, inputs: jax.Array, targets: jax.Array) -> tuple[State, jax.Array]:
        loss, gradients = loss_and_gradients(state.params, inputs, targets)
        updates, optimizer_state = optimizer.update(gradients, state.optimizer, state.params)
        return State(optax.apply_updates(state.params, updates), optimizer_state), loss

    return train_step


def make_state(config: TrainConfig, mesh: Mesh) -> State:
    """Fresh state, replicated; every rank computes the same one from the seed."""
    optimizer = make_optimizer(config)

    @functools.partial(jax.jit, out_shardings=NamedSharding(mesh, _REPLICATED))
    def init(key: jax.Array) -> State:
        params = llama.init_params(config.model(), key)
        return State(params, optimizer.init(params))

    state: State = init(jax.random.key(config.seed))
    return state


def train(config: TrainConfig, windows: text.Windows) -> Iterator[StepRecord]:
    """Trains for `config.steps` steps on the devices of the job; yields a record after each.

    Raises:
      ValueError: the mesh does not match the job's devices.
    """
    mesh = make_mesh(config)
    sharding = NamedSharding(mesh, _SPREAD)
    order = zigzag_order(config.sequence, config.context)
    train_step = make_train_step(config, mesh)
    state = make_state(config, mesh)

    def spread(tokens: NDArray[np.int32]) -> jax.Array:
        dealt = tokens[:, order]
        return jax.make_array_from_callback(dealt.shape, sharding, lambda index: dealt[index])

    for step in range(config.steps):
        start = time.perf_counter()
        inputs, targets = windows.at(step)
        state, loss = train_step(state, spread(inputs), spread(targets))
        jax.block_until_ready((state, loss))  # type: ignore[no-untyped-call]
        seconds = time.perf_counter() - start
        yield StepRecord(step, float(loss), seconds, inputs.size)


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
