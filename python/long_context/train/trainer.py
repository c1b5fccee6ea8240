"""Trains a Llama decoder on a mesh of devices: one rank of an ordinary JAX job.

The code does not depend on what carries the collectives.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.parallel.zigzag import zigzag_order
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.feed import Feed
from long_context.train.job_folder import check_folder
from long_context.train.job_tokens import Data, open_data
from long_context.train.step import TrainState, abstract_state, init_state, make_evaluation, make_train_step
from long_context.train.step_log import LOG_NAME, StepLog, StepRecord
from long_context.train.step_profile import StepProfile
from long_context.train.stop_request import StopRequest
from long_context.train.throughput import step_flops
from xla_shmem.launch.rank_environment import inside_a_job

if TYPE_CHECKING:
    from long_context.train.checkpoints import Checkpoints


class Stopped(Exception):
    """A signal stopped the job; the message says after which step, and whether the job can resume there."""


def train(config: TrainConfig, data: Data) -> Iterator[StepRecord]:
    """Trains on all devices of the job, from the newest checkpoint if the job resumes; yields a record of each step.

    All processes must call it. Writes checkpoints as `config` says.

    Raises:
      ValueError: the mesh does not match the job's devices, the corpus is too short, or the checkpoint belongs to
        another job.
      Stopped: a signal requested a stop.
    """
    if config.attention_blocks == "cudnn" and jax.default_backend() != "gpu":
        raise ConfigError(f"attention-blocks cudnn needs GPUs, and this job has {jax.default_backend()}s; choose xla.")
    mesh = make_mesh(config.mesh())
    order = zigzag_order(config.sequence, config.context)
    feed = Feed(data.windows(config), sharding.tokens(mesh), order)
    validate = _validation(config, mesh, data, order)
    train_step = make_train_step(config, mesh)
    with contextlib.ExitStack() as stack:
        checkpoints, first = None, 0
        if config.checkpoint_every:
            from long_context.train.checkpoints import Checkpoints  # only checkpoints need orbax

            checkpoints = stack.enter_context(Checkpoints(config, len(data.training)))
            first = checkpoints.newest or 0
        state = checkpoints.restore(abstract_state(config, mesh)) if first and checkpoints else init_state(config, mesh)
        stop = stack.enter_context(StopRequest(jax.process_count() > 1))
        profile = stack.enter_context(StepProfile(config, first))
        done = yield from _steps(config, first, state, train_step, feed, validate, checkpoints, stop, profile)
    if done < config.steps:
        how = "--resume continues there" if checkpoints else "there is no checkpoint (--checkpoint-every)"
        raise Stopped(f"stopped after {done} of {config.steps} steps; {how}.")


def _validation(
    config: TrainConfig, mesh: Mesh, data: Data, order: NDArray[np.intp]
) -> Callable[[TrainState, int], float | None]:
    """A function (state, steps done) -> loss on the same validation tokens each time, or None if it is not due."""
    if data.validation is None:
        return lambda state, done: None
    windows, batches = data.validation_windows(config)
    feed, evaluate = Feed(windows, sharding.tokens(mesh), order), make_evaluation(config, mesh)

    def validate(state: TrainState, done: int) -> float | None:
        if done % config.validation_every and done != config.steps:
            return None
        return float(np.mean([float(evaluate(state, *feed.at(batch))) for batch in range(batches)]))

    return validate


def _steps(
    config: TrainConfig,
    first: int,
    state: TrainState,
    train_step: Callable[[TrainState, jax.Array, jax.Array], tuple[TrainState, Any]],
    feed: Feed,
    validate: Callable[[TrainState, int], float | None],
    checkpoints: Checkpoints | None,
    stop: StopRequest,
    profile: StepProfile,
) -> Generator[StepRecord, None, int]:
    """Yields the records; returns the number of steps done, less than all after a request to stop."""
    tokens = config.batch * config.sequence
    tera = step_flops(config.model(), config.batch, config.sequence) / config.devices / 1e12
    batch = feed.at(first)
    for step in range(first, config.steps):
        profile.before(step)
        start = time.perf_counter()
        state, loss = train_step(state, *batch)
        if step + 1 < config.steps:
            batch = feed.at(step + 1)  # while this step runs
        jax.block_until_ready((state, loss))  # type: ignore[no-untyped-call]
        seconds = time.perf_counter() - start
        done = step + 1
        rates = (tokens, tokens / seconds, tera / seconds)
        yield StepRecord(step, float(loss), seconds, *rates, step == first, validate(state, done))
        stopping = done < config.steps and stop.after(done)
        if checkpoints is not None and (stopping or checkpoints.due(done)):
            checkpoints.save(done, state)
        if stopping:
            return done
    profile.before(config.steps)
    return config.steps


def start_rank(config: TrainConfig) -> Data:
    """Joins the distributed job, if there is one, and opens the corpus.

    Raises:
      ValueError: the folder contains checkpoints of another job, or the corpus cannot be read.
    """
    if inside_a_job(os.environ):
        jax.distributed.initialize()
    check_folder(config)
    return open_data(config)


def run_rank(config: TrainConfig, on_step: Callable[[StepRecord], None]) -> None:
    """Runs this process's part of the job; rank 0 writes the log and calls `on_step` with each record.

    Raises:
      ValueError, Stopped: as `train`.
    """
    log = StepLog(Path(config.output) / LOG_NAME)
    for record in train(config, start_rank(config)):
        if jax.process_index() == 0:
            log.append(record)
            on_step(record)
