"""Measures training steps of the tensor-parallel example: parallel and sequential block, on both transports, in turns.

    XLA_FLAGS=--xla_gpu_experimental_enable_nvshmem=true JAX_PLATFORMS=cpu \\
      xla-shmem launch -n 4 --devices-per-process 1 -- python benchmarks/tensor_block_benchmark.py [--rounds 41]

Every rank is one device along "tensor". All four programs run one step in each round, so they have the same load.
Prints the median, the fastest step and the quartiles of each in ms, and the load average.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

BLOCKS = ("parallel", "sequential")
TRANSPORTS = ("SHMEM", "stock")

_WARMUP = 2  # steps that are not measured


def programs(sizes: dict[str, Any], batch: int) -> dict[tuple[str, str], list[Any]]:
    """[compiled step, state, batch, dropout key] by block and transport."""
    import jax

    sys.path.append(str(Path(__file__).parents[1] / "examples/tensor_tutorial"))
    import train_transformer
    from transformer import TutorialConfig
    from xla_shmem import plugin

    mesh = train_transformer.make_mesh(data=1, tensor=jax.device_count())
    compiled = {}
    for block in BLOCKS:
        config = TutorialConfig(parallel_block=block == "parallel", **sizes)
        tokens = train_transformer.make_batch(config, mesh, batch, jax.random.key(1))
        for transport in TRANSPORTS:
            state = train_transformer.make_state(config, mesh, jax.random.key(0))
            step = jax.jit(train_transformer.update, donate_argnums=0)
            args = [state, tokens, jax.random.key(2)]
            with plugin.stock_collectives() if transport == "stock" else contextlib.nullcontext():
                compiled[block, transport] = [step.lower(*args).compile(), *args]
            if jax.process_index() == 0:
                print(f"compiled: {block} block on {transport}", flush=True)
    return compiled


def main() -> None:
    """Runs the benchmark; see the docstring of the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--batch", type=int, default=8)
    for name, size in (("sequence", 32), ("width", 256), ("layers", 6), ("hidden", 1024)):
        parser.add_argument(f"--{name}", type=int, default=size)
    arguments = vars(parser.parse_args())
    rounds, batch = arguments.pop("rounds"), arguments.pop("batch")

    import jax

    from xla_shmem import plugin

    jax.distributed.initialize()
    jax.devices()
    if not plugin.active():
        raise SystemExit("XLA_FLAGS has no --xla_gpu_experimental_enable_nvshmem=true: there is nothing to compare.")
    times, losses = run_in_turns(programs(arguments, batch), rounds)
    if jax.process_index():
        return
    print(f"{jax.device_count()} ranks, batch {batch}, {arguments}, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    print(f"{'ms per step':24s} {'median':>8s} {'fastest':>8s} {'quartiles':>15s} {'loss':>8s}")
    for (block, transport), series in times.items():
        low, median, high = statistics.quantiles(series, n=4)
        print(
            f"{block:12s} {transport:11s} {median:8.1f} {min(series):8.1f} {low:7.1f}–{high:7.1f} "
            f"{losses[block, transport]:8.4f}"
        )


def run_in_turns(
    running: dict[tuple[str, str], list[Any]], rounds: int
) -> tuple[dict[tuple[str, str], list[float]], dict[tuple[str, str], float]]:
    """Step times in ms of every program without the warm-up steps, and its last loss."""
    times: dict[tuple[str, str], list[float]] = {name: [] for name in running}
    losses = {}
    for _ in range(_WARMUP + rounds):
        for name, program in running.items():
            step, *args = program
            start = time.perf_counter()
            program[1], metrics = step(*args)
            losses[name] = float(metrics.loss)
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: series[_WARMUP:] for name, series in times.items()}, losses


if __name__ == "__main__":
    main()
