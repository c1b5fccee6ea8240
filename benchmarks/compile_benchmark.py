"""Compile time that the pass adds to real programs, measured in turns against exactly stock compilation.

    python benchmarks/compile_benchmark.py [--rounds 15]

Four programs on four CPU devices of one process: a ring matmul (permutes in a scan), its gradient, an MLP's
gradient with collectives that the partitioner inserts, and the training step of the demo. Prints medians and fastest
times in ms: the medians have the noise of the machine in them, the fastest times hardly.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

DEVICES = 4


def programs() -> dict[str, Any]:
    """Jitted functions and their arguments' shapes, by name."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    from xla_shmem.parallel import sharding
    from xla_shmem.parallel.mesh import make_mesh
    from xla_shmem.train.config import TrainConfig
    from xla_shmem.train.step import abstract_state, make_train_step

    mesh = Mesh(np.array(jax.devices()), ("x",))
    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]

    def ring_matmul(x: Any, w: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, total = carry
            return (jax.lax.ppermute(x, "x", ring), total + x @ w), None

        return jax.lax.scan(step, (x, jnp.zeros((x.shape[0], w.shape[1]))), None, length=DEVICES)[0][1]

    def ring_loss(x: Any, w: Any) -> Any:
        ringed = jax.shard_map(ring_matmul, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"), check_vma=False)
        return jnp.sum(jnp.tanh(ringed(x, w)) ** 2)

    def mlp_loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jax.nn.gelu(x @ w)
        return jnp.mean(x**2)

    def like(shape: tuple[int, ...], spec: P) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    weights = [like((256, 256), P(None, "x")) if i % 2 else like((256, 256), P("x", None)) for i in range(8)]
    x = like((64, 256), P("x", None))
    config = TrainConfig(context=DEVICES)
    training_mesh = make_mesh(config.mesh())
    shape = (config.batch, config.sequence)
    tokens = jax.ShapeDtypeStruct(shape, jnp.int32, sharding=sharding.tokens(training_mesh))
    training_arguments = (abstract_state(config, training_mesh), tokens, tokens)
    ring_arguments = (like((512, 256), P("x")), like((256, 256), P()))
    return {
        "ring matmul (scan of permutes)": (jax.jit(ring_loss), ring_arguments),
        "gradient of the ring matmul": (jax.jit(jax.grad(ring_loss, argnums=(0, 1))), ring_arguments),
        "gradient of an 8-layer MLP (GSPMD)": (jax.jit(jax.grad(mlp_loss)), (weights, x)),
        "training step of the demo": (make_train_step(config, training_mesh), training_arguments),
    }


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    os.environ["XLA_FLAGS"] = (
        f"--xla_gpu_experimental_enable_nvshmem=true --xla_force_host_platform_device_count={DEVICES}"
    )
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"

    import jax

    from xla_shmem import plugin

    def compile_ms(function: Any, arguments: Any) -> float:
        jax.clear_caches()  # else JAX hands out what it compiled before
        lowered = function.lower(*arguments)
        start = time.perf_counter()
        lowered.compile()
        return (time.perf_counter() - start) * 1e3

    columns = f"{'stock':>14s} {'pass':>8s} {'added':>7s}"
    print(f"{'ms':36s} {'median':^31s}   {'fastest':^31s}\n{'':36s} {columns}   {columns}")
    for name, (function, arguments) in programs().items():
        slow = compile_ms(function, arguments) > 1000
        times = []
        for _ in range(max(5, rounds // 4) if slow else rounds):
            with plugin.stock_collectives():
                stock = compile_ms(function, arguments)
            times.append((stock, compile_ms(function, arguments)))
        stock_times, shmem_times = zip(*times, strict=True)
        cells = []
        for summary in (statistics.median, min):
            stock, shmem = summary(stock_times), summary(shmem_times)
            cells.append(f"{stock:14.1f} {shmem:8.1f} {shmem / stock - 1:+7.1%}")
        print(f"{name:36s} {cells[0]}   {cells[1]}", flush=True)


if __name__ == "__main__":
    main()
