"""A rank of the training jobs that faults hit: the small Llama on a mesh, and what it did step by step.

Each step has permutes (ring attention), all-gathers and reduce-scatters (sharded parameters) and all-reduces
(gradients, loss). What the rank did goes to `<rank>.jsonl` in the folder of the run, a line for each event.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import distributed
from jax.experimental import serialize_executable

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.parallel.zigzag import zigzag_order
from long_context.train.config import TrainConfig
from long_context.train.step import make_init, make_train_step

#: Axes of the mesh, by number of ranks. On more than one rank every step has all four kinds of collectives.
MESHES = {
    1: {"context": 1},
    2: {"context": 2, "shard_over_context": True},
    4: {"fsdp": 2, "context": 2},
    8: {"data": 2, "fsdp": 2, "context": 2},
}


def config_of(ranks: int) -> TrainConfig:
    """The job on this number of ranks: the same training on each, of which a run does the first steps."""
    mesh: dict[str, Any] = MESHES[ranks]
    return TrainConfig(preset="tiny", layers=1, batch=4, sequence=64, steps=300, **{"context": 1} | mesh)


class Events:
    """The events of a rank, each written as it happens."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._file = os.open(folder / f"{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, **event: object) -> None:
        """Appends a line in one system call, so that a kill leaves whole lines."""
        os.write(self._file, (json.dumps(event | {"time": time.monotonic()}) + "\n").encode())


def _batch(config: TrainConfig, step: int, where: jax.sharding.NamedSharding) -> tuple[jax.Array, jax.Array]:
    tokens = np.random.default_rng(step).integers(0, 256, (config.batch, config.sequence + 1), np.int32)
    order = zigzag_order(config.sequence, config.context)

    def put(values: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(values.shape, where, lambda index: values[index])

    return put(tokens[:, order]), put(tokens[:, order + 1])


def _digest(tree: Any) -> str:
    """A hash of this process's shards."""
    hashed = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        for shard in leaf.addressable_shards:
            hashed.update(np.asarray(shard.data).tobytes())
    return hashed.hexdigest()[:16]


def _leave_collectives(number: int, frame: object) -> None:
    """The signal handler of fault `absent`: the rank stays in Python code."""
    while True:
        time.sleep(1)


def _compiled(file: Path, lower: Callable[[], Any]) -> Any:
    """The program in the file. If there is none, rank 0 first compiles it: only the first run does."""
    if jax.process_index() == 0 and not file.exists():
        file.write_bytes(pickle.dumps(serialize_executable.serialize(lower().compile())))
    # Also because ranks need very different times until here, and the deadline of the collectives is short.
    distributed.global_state.client.wait_at_barrier(f"compiled {file.name}", 120_000)
    return serialize_executable.deserialize_and_load(*pickle.loads(file.read_bytes()))


def train(folder: Path, programs: Path, ranks: int, steps: int) -> None:
    """Trains, and ends the process with status 1 if the job fails.

    Args:
      folder: of the run.
      programs: folder of the compiled programs of all runs.
      ranks, steps: of the job.
    """
    jax.distributed.initialize()
    rank = jax.process_index()
    events = Events(folder, rank)
    signal.signal(signal.SIGUSR1, _leave_collectives)
    config = config_of(ranks)
    mesh = make_mesh(config.mesh())
    tokens = sharding.tokens(mesh)
    try:
        key = jax.random.key(config.seed)
        init = _compiled(programs / f"init.{ranks}", lambda: make_init(config, mesh).lower(key))
        state = init(key)
        first = _batch(config, 0, tokens)
        train_step = _compiled(programs / f"step.{ranks}", lambda: make_train_step(config, mesh).lower(state, *first))
        distributed.global_state.client.wait_at_barrier("begin", 120_000)
        for step in range(steps):
            state, loss = train_step(state, *_batch(config, step, tokens))
            events.add(step=step, loss=float(loss).hex())
        events.add(done=_digest(state))
    except Exception as error:
        events.add(error=f"{type(error).__name__}: {error}")
        os._exit(1)  # JAX's exit handlers would wait for the other ranks
    jax.distributed.shutdown()
