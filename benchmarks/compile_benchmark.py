"""Measures the compile time that the pass adds to real programs, in turns with stock compilation.

    python benchmarks/compile_benchmark.py [--rounds 15]

Compiles four programs for four CPU devices of one process: a ring matmul (permutes in a scan), its gradient, the
gradient of an MLP with collectives that the partitioner inserts, and the training step of the demo. Prints medians and
fastest times in ms. Medians contain the noise of the machine, fastest times hardly any.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

DEVICES = 4

#: Programs that compile longer than this, in ms, run fewer rounds.
SLOW_MS = 1000

Programs = dict[str, tuple[Any, tuple[Any, ...]]]


def ring_programs() -> Programs:
    """Jitted functions and the shapes of their arguments, by name: permutes in a scan."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]

    def ring_matmul(x: Any, w: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, total = carry
            return (jax.lax.ppermute(x, "x", ring), total + x @ w), None

        return jax.lax.scan(step, (x, jnp.zeros((x.shape[0], w.shape[1]))), None, length=DEVICES)[0][1]

    def ring_loss(x: Any, w: Any) -> Any:
        sharded = jax.shard_map(ring_matmul, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)
        return jnp.sum(jnp.tanh(sharded(x, w)) ** 2)

    def mlp_loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jax.nn.gelu(x @ w)
        return jnp.mean(x**2)

    def like(shape: tuple[int, ...], spec: P) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    ring_arguments = (like((512, 256), P("x")), like((256, 256), P()))
    weights = [like((256, 256), P(None, "x")) if i % 2 else like((256, 256), P("x", None)) for i in range(8)]
    return {
        "ring matmul (scan of permutes)": (jax.jit(ring_loss), ring_arguments),
        "gradient of the ring matmul": (jax.jit(jax.grad(ring_loss, argnums=(0, 1))), ring_arguments),
        "gradient of an 8-layer MLP (GSPMD)": (jax.jit(jax.grad(mlp_loss)), (weights, like((64, 256), P("x", None)))),
    }


def training_step() -> Programs:
    """The training step of the demo, like `ring_programs`."""
    import jax
    import jax.numpy as jnp

    from long_context.parallel import sharding
    from long_context.parallel.mesh import make_mesh
    from long_context.train.config import TrainConfig
    from long_context.train.step import abstract_state, make_train_step

    config = TrainConfig(context=DEVICES)
    mesh = make_mesh(config.mesh())
    shape = (config.batch, config.sequence)
    tokens = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=sharding.tokens(mesh))
    step = make_train_step(config, mesh)
    return {"training step of the demo": (step, (abstract_state(config, mesh), tokens, tokens))}


def compile_ms(function: Any, arguments: Any) -> float:
    """Time of one compilation in ms."""
    import jax

    jax.clear_caches()  # otherwise JAX returns the previous executable
    lowered = function.lower(*arguments)
    start = time.perf_counter()
    lowered.compile()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Runs the benchmark; see the docstring of the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    os.environ["XLA_FLAGS"] = (
        f"--xla_gpu_experimental_enable_nvshmem=true --xla_force_host_platform_device_count={DEVICES}"
    )
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

    from xla_shmem import plugin

    columns = f"{'stock':>14s} {'pass':>8s} {'added':>7s}"
    print(f"{'ms':36s} {'median':^31s}   {'fastest':^31s}\n{'':36s} {columns}   {columns}")
    for name, (function, arguments) in (ring_programs() | training_step()).items():
        slow = compile_ms(function, arguments) > SLOW_MS
        stock_times, shmem_times = [], []
        for _ in range(max(5, rounds // 4) if slow else rounds):
            with plugin.stock_collectives():
                stock_times.append(compile_ms(function, arguments))
            shmem_times.append(compile_ms(function, arguments))
        cells = []
        for summary in (statistics.median, min):
            stock, shmem = summary(stock_times), summary(shmem_times)
            cells.append(f"{stock:14.1f} {shmem:8.1f} {shmem / stock - 1:+7.1%}")
        print(f"{name:36s} {cells[0]}   {cells[1]}", flush=True)


if __name__ == "__main__":
    main()
