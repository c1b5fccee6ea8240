"""Trains a small Llama for ten steps: on all GPUs of the job, and rank 0 on one GPU and on one CPU device.

Reports the losses.
"""

from __future__ import annotations

import os

import jax
import numpy as np
from executed_collectives import Executions, expected_of
from job_runs import report

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.parallel.zigzag import zigzag_order
from long_context.train.config import TrainConfig
from long_context.train.step import init_state, make_train_step

STEPS = 10
BATCH, SEQUENCE = 2, 32
TOKENS = np.random.default_rng(0).integers(0, 256, (BATCH, SEQUENCE + 1), np.int32)


def losses(context: int, devices: list[jax.Device]) -> tuple[list[float], int]:
    """The loss of each step, and the collectives that a run of the step begins on NVSHMEM."""
    config = TrainConfig(
        steps=STEPS,
        batch=BATCH,
        sequence=SEQUENCE,
        context=context,
        **{"width": 32, "layers": 1, "heads": 4, "kv_heads": 2, "hidden": 48},
    )
    mesh = make_mesh(config.mesh(), devices)
    state, train_step = init_state(config, mesh), make_train_step(config, mesh)
    order, held = zigzag_order(SEQUENCE, context), sharding.tokens(mesh)
    found: list[float] = []
    calls = 0
    for _ in range(STEPS):
        batch = [
            jax.make_array_from_callback(x.shape, held, lambda index, x=x: x[index])
            for x in (TOKENS[:, :-1][:, order], TOKENS[:, 1:][:, order])
        ]
        if not found:
            calls = expected_of(train_step.lower(state, *batch).compile().as_text()).least
        state, loss = train_step(state, *batch)
        found.append(float(loss.addressable_data(0)))
    return found, calls


def main() -> None:
    executions = Executions()
    if int(os.environ["OMPI_COMM_WORLD_SIZE"]) > 1:
        jax.distributed.initialize()
    gpus = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    assert {device.platform for device in gpus} == {"gpu"}
    before = executions.count
    together, calls = losses(len(gpus), gpus)
    ran = executions.count - before
    found: dict[str, object] = {"together": together, "calls": calls, "ran": ran}
    if jax.process_index() == 0:
        found["alone"], _ = losses(1, jax.local_devices()[:1])
        found["cpu"], _ = losses(1, jax.local_devices(backend="cpu")[:1])
    report(found)


if __name__ == "__main__":
    main()
