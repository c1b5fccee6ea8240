"""Time of a permute beside a matmul inside a compiled loop, as JAX runs them.

SHMEM runs it if the flag is on, otherwise NCCL. Times are the wall clock of the whole loop divided by its steps.
Rank 0 records.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import numpy as np

from gpu_check import exchange, records
from gpu_check.jax_job import JaxJob, collectives

_ROUNDS = 5
_MATMUL = 64 if records.emulated() else 4096


def seconds(compiled: Any, *arguments: Any) -> float:
    """Returns the median time of one run."""
    import jax

    times = []
    for _ in range(_ROUNDS + 1):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def transport_of(job: JaxJob, compiled: Any) -> str:
    """Returns the transport of a program's collectives; "" if the program cannot run here."""
    ours, left = collectives(compiled)
    if ours and not left:
        return "SHMEM"
    return "" if os.environ.get("GPU_CHECK_SHARED") == "1" else "NCCL"


def beside_a_matmul(job: JaxJob) -> None:
    """A ring step and a bf16 matmul: each alone, and both."""
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec as P

    count = 20

    def step(moves: bool, multiplies: bool) -> Any:
        def body(x: Any, w: Any) -> Any:
            def once(_: Any, carry: Any) -> Any:
                block, product = carry
                moved = lax.ppermute(block, "x", job.ring) if moves else block
                return moved, (product @ w) if multiplies else product

            return lax.fori_loop(0, count, once, (x, w))

        return job.program(body, (P("x"), P()), (P("x"), P()))

    w = job.put(np.eye(_MATMUL, dtype=np.float32).astype(jnp.bfloat16))
    for size in records.sizes((1 << 24, 1 << 26)):
        x = job.put(np.ones(job.n * size // 4, np.float32), "x")
        compiled = {
            name: step(*parts).lower(x, w).compile()
            for name, parts in {"permute": (True, False), "matmul": (False, True), "both": (True, True)}.items()
        }
        by = transport_of(job, compiled["both"])
        if not by or not transport_of(job, compiled["permute"]):
            continue
        took = {name: seconds(program, x, w) / count for name, program in compiled.items()}
        if job.rank == 0:
            hidden = 100 * (took["permute"] + took["matmul"] - took["both"]) / min(took["permute"], took["matmul"])
            times = {**{f"{name} µs": value * 1e6 for name, value in took.items()}, "hidden %": hidden}
            records.measured_row("Permute beside a matmul in JAX", times, by=by, PEs=job.n, bytes=size)


def main() -> None:
    """Measures."""
    job = JaxJob()
    beside_a_matmul(job)
    exchange.leave()


if __name__ == "__main__":
    main()
