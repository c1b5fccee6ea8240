"""Trains the model of the tutorial "Transformers with Tensor Parallelism" with the settings of its published run.

    python examples/tensor_tutorial/train_transformer.py [--steps 50] [--sequential] [--positions sinusoidal]

uses a 2 x 4 mesh of 8 CPU devices. In 50 steps of Adam the model memorises one batch of 8 x 32 random tokens, those of
the tutorial. It cannot know the first token of a sequence; about one of the 8 guesses is right, so 249 of 256 tokens
can be correct. The tutorial measures with dropout on, which changes this number by a few.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from transformer import TutorialConfig, TutorialTransformer

DATA, TENSOR = 2, 4
BATCH = 8


class Metrics(NamedTuple):
    """Of one batch: mean cross entropy in nats per token, and the fraction of tokens predicted correctly."""

    loss: jax.Array
    accuracy: jax.Array


class Result(NamedTuple):
    """Of a run: the tutorial's metrics with dropout (`training`) and without (`evaluation`)."""

    parameters: int
    training: Metrics
    evaluation: Metrics


def make_mesh(data: int = DATA, tensor: int = TENSOR, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Mesh (data, tensor) over the first of `devices`, by default of all devices.

    Raises:
      ValueError: there are fewer devices.
    """
    devices = jax.devices() if devices is None else devices
    if len(devices) < data * tensor:
        raise ValueError(
            f"mesh data {data} x tensor {tensor} needs {data * tensor} devices, there are {len(devices)}; on a "
            f"machine without them set JAX_PLATFORMS=cpu JAX_NUM_CPU_DEVICES={data * tensor}."
        )
    axis_types = (AxisType.Auto,) * 2
    return jax.make_mesh((data, tensor), ("data", "tensor"), axis_types=axis_types, devices=devices[: data * tensor])


def make_batch(config: TutorialConfig, mesh: Mesh, batch: int, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inputs and targets, both [batch, sequence]: random targets, and as inputs the same after a start token 0."""

    def draw(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        targets = jax.random.randint(key, (batch, config.sequence), 1, config.vocab)
        return jnp.pad(targets[:, :-1], ((0, 0), (1, 0))), targets

    spread = NamedSharding(mesh, P("data"))  # type: ignore[no-untyped-call]
    inputs, targets = jax.jit(draw, out_shardings=spread)(key)
    return inputs, targets


def published_batch(config: TutorialConfig, mesh: Mesh) -> tuple[jax.Array, jax.Array]:
    """The tokens of the tutorial's run, drawn with the random number scheme that was JAX's default then."""
    with jax.threefry_partitionable(False):
        return make_batch(config, mesh, BATCH, jax.random.split(jax.random.key(42))[1])


@functools.cache
def _optimizer() -> optax.GradientTransformation:
    schedule = optax.warmup_exponential_decay_schedule(
        init_value=0.0, peak_value=1e-3, warmup_steps=10, transition_steps=1, decay_rate=0.99
    )
    return optax.adam(schedule)


def make_state(config: TutorialConfig, mesh: Mesh, key: jax.Array) -> TrainState:
    """Fresh parameters and optimiser state; every device creates only its own shards."""
    init, shardings = _initialisation(config, mesh)
    state: TrainState = nn.unbox(jax.jit(init, out_shardings=shardings)(key))
    return state


def abstract_state(config: TutorialConfig, mesh: Mesh) -> TrainState:
    """Shapes, types and shardings of the state."""
    init, shardings = _initialisation(config, mesh)
    shapes = nn.unbox(jax.eval_shape(init, jax.random.key(0)))
    state: TrainState = jax.tree.map(
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),  # type: ignore[no-untyped-call]
        shapes,
        shardings,
    )
    return state


def _initialisation(config: TutorialConfig, mesh: Mesh) -> tuple[Callable[[jax.Array], TrainState], Any]:
    """The function that makes a fresh state from a key, and the state's shardings."""
    model = TutorialTransformer(config, mesh)
    tokens = jnp.zeros((mesh.shape["data"], config.sequence), jnp.int32)

    def init(key: jax.Array) -> TrainState:
        params = model.init(key, tokens, train=False)["params"]
        state: TrainState = TrainState.create(apply_fn=model.apply, params=params, tx=_optimizer())  # type: ignore[no-untyped-call]
        return state

    return init, nn.get_sharding(jax.eval_shape(init, jax.random.key(0)), mesh)


def measure(
    state: TrainState, params: object, batch: tuple[jax.Array, jax.Array], dropout: jax.Array | None
) -> tuple[jax.Array, Metrics]:
    """Loss (to differentiate) and metrics of a batch; `dropout` is the key of dropout, None for no dropout."""
    inputs, targets = batch
    rngs = {} if dropout is None else {"dropout": dropout}
    logits = state.apply_fn({"params": params}, inputs, train=dropout is not None, rngs=rngs)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
    return loss, Metrics(loss, jnp.mean(logits.argmax(axis=-1) == targets))


@jax.jit
def evaluate(state: TrainState, batch: tuple[jax.Array, jax.Array]) -> Metrics:
    """Metrics of a batch without dropout."""
    return measure(state, state.params, batch, None)[1]


def update(
    state: TrainState, batch: tuple[jax.Array, jax.Array], key: jax.Array, num_minibatches: int = 1
) -> tuple[TrainState, Metrics]:
    """One step: the new state, and the metrics before the update.

    Args:
      state: the old state.
      batch: inputs and targets, both [batch, sequence].
      key: seeds the dropout of all steps.
      num_minibatches: parts of the batch that are computed one after the other, so that only one part's activations
        exist at a time; gradients and metrics are their means.

    Raises:
      ValueError: the batch does not divide into so many parts.
    """
    key = jax.random.fold_in(key, state.step)
    if len(batch[0]) % num_minibatches:
        raise ValueError(f"a batch of {len(batch[0])} does not divide into num_minibatches = {num_minibatches} parts.")
    # Rows i, i + parts, ..: so every part is split over all devices of the axis "data".
    parts = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(-1, num_minibatches, *x.shape[1:]), 1, 0), batch)

    def one(number: jax.Array, part: tuple[jax.Array, jax.Array]) -> tuple[object, Metrics]:
        def loss(params: object) -> tuple[jax.Array, Metrics]:
            return measure(state, params, part, jax.random.fold_in(key, number) if num_minibatches > 1 else key)

        found: tuple[object, Metrics] = jax.grad(loss, has_aux=True)(state.params)
        return found

    def add(total: object, numbered: tuple[jax.Array, tuple[jax.Array, jax.Array]]) -> tuple[object, None]:
        return jax.tree.map(jnp.add, total, one(*numbered)), None

    numbered = (jnp.arange(num_minibatches), parts)
    if num_minibatches == 1:
        gradients, metrics = one(*jax.tree.map(lambda x: x[0], numbered))
    else:
        zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(one, *jax.tree.map(lambda x: x[0], numbered)))
        total, _ = jax.lax.scan(add, zeros, numbered)
        gradients, metrics = jax.tree.map(lambda x: x / num_minibatches, total)
    return state.apply_gradients(grads=gradients), metrics  # type: ignore[no-untyped-call]


#: `update`, compiled; the state's buffers are reused.
train_step = jax.jit(update, donate_argnums=0, static_argnums=3)


def run(
    config: TutorialConfig,
    mesh: Mesh,
    steps: int,
    batch: tuple[jax.Array, jax.Array] | None = None,
    seed: int = 1,
    num_minibatches: int = 1,
    on_step: Callable[[int, Metrics], None] = lambda *_: None,
) -> Result:
    """Trains on one batch for `steps` steps, then measures with and without dropout.

    Args:
      config: the model.
      mesh: devices with axes "data" and "tensor".
      steps: number of updates.
      batch: [batch, sequence] inputs and targets; by default the tutorial's.
      seed: seed of parameters and dropout.
      num_minibatches: as for `update`.
      on_step: called after each step with its number and metrics.
    """
    model_key, dropout_key = jax.random.split(jax.random.key(seed))
    if batch is None:
        batch = published_batch(config, mesh)
    state = make_state(config, mesh, model_key)
    parameters = sum(x.size for x in jax.tree.leaves(state.params))
    for step in range(steps):
        state, metrics = train_step(state, batch, dropout_key, num_minibatches)
        # One step at a time: concurrent steps would compete for XLA:CPU's threads, of which there is one per core.
        jax.block_until_ready(metrics)  # type: ignore[no-untyped-call]
        on_step(step, metrics)
    evaluation = evaluate(state, batch)
    _, training = train_step(state, batch, dropout_key, num_minibatches)
    return Result(parameters, training, evaluation)


@click.command()
@click.option("--steps", type=click.IntRange(1), default=50, show_default=True, help="Updates before measuring.")
@click.option("--seed", default=1, show_default=True, help="Seed of parameters and dropout.")
@click.option("--sequential", is_flag=True, help="Run attention and MLP one after the other instead of in parallel.")
@click.option("--positions", type=click.Choice(["learned", "sinusoidal"]), default="learned", show_default=True)
@click.option(
    "--num-minibatches", type=click.IntRange(1), default=1, show_default=True, help="Parts of a step's batch."
)
def main(steps: int, seed: int, sequential: bool, positions: str, num_minibatches: int) -> None:
    """Train the tutorial's transformer on a 2 x 4 mesh and print what the tutorial prints."""
    jax.config.update("jax_num_cpu_devices", DATA * TENSOR)  # type: ignore[no-untyped-call]
    start = time.perf_counter()

    def report(step: int, metrics: Metrics) -> None:
        if step % 10 == 0:
            click.echo(f"step {step:3}: loss {float(metrics.loss):.4f}, accuracy {float(metrics.accuracy):.4f}")

    try:
        mesh, config = make_mesh(), TutorialConfig(parallel_block=not sequential, positions=positions)
        result = run(config, mesh, steps, None, seed, num_minibatches, report)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{result.parameters:,} parameters, {steps} steps in {time.perf_counter() - start:.0f} s")
    for name, metrics in (("as in training", result.training), ("without dropout", result.evaluation)):
        click.echo(f"{name}: accuracy {float(metrics.accuracy):.4f}, loss {float(metrics.loss):.4f}")


if __name__ == "__main__":
    main()
