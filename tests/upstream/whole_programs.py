"""Programs with collectives that the partitioner inserts, collectives in loops, and combined collectives.

docs/differences.md refers to the names of the programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from program_maker import SMALL, THRESHOLD, Program, ProgramMaker


class WholePrograms(ProgramMaker):
    def __iter__(self) -> Iterator[Program]:
        yield from self.inserted_by_the_partitioner()
        yield from self.loops()
        yield from self.combined()

    def inserted_by_the_partitioner(self) -> Iterator[Program]:
        line, grid, n = self.line(), self.grid(), self.count

        def matmul(x: Any, w: Any) -> Any:
            return x @ w

        for label, columns in (("below", 2047), ("at", 2048), ("above", 2049)):
            yield self.automatic(
                f"auto_matmul_{label}",
                matmul,
                P(),
                ((2048, 64 * n), P(None, "x")),
                ((64 * n, columns), P("x", None)),
                mesh=line,
            )

        def mlp(x: Any, up: Any, down: Any) -> Any:
            return jnp.tanh(x @ up) @ down

        tensors = (((64, 128), P("a", None)), ((128, 64 * n), P(None, "b")), ((64 * n, 128), P("b", None)))
        yield self.automatic("auto_megatron_mlp", mlp, P("a", None), *tensors, mesh=grid)

        def loss_gradient(w: Any, x: Any) -> Any:
            return jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

        yield self.automatic(
            "auto_data_parallel_gradient",
            loss_gradient,
            P(),
            ((128, 64), P()),
            ((64 * n, 128), P("x", None)),
            mesh=line,
        )
        yield self.automatic("auto_mean", lambda x: jnp.mean(x), P(), ((64 * n, 8), P("x")), mesh=line)
        yield self.automatic("auto_shift", lambda x: jnp.roll(x, 1), P("x"), ((64 * n,), P("x")), mesh=line)
        yield self.automatic("auto_flip", lambda x: jnp.flip(x), P("x"), ((64 * n,), P("x")), mesh=line)
        yield self.automatic("auto_unshard", lambda x: x * 2, P(), ((64 * n,), P("x")), mesh=line)
        yield self.automatic("auto_transpose", lambda x: x.T, P("x"), ((64 * n, 64 * n), P("x", None)), mesh=line)

    def loops(self) -> Iterator[Program]:
        n = self.count
        ring = [(i, (i + 1) % n) for i in range(n)]

        def fori(x: Any) -> Any:
            return lax.fori_loop(0, 5, lambda i, x: lax.psum(x * i, "x") / n, x)

        def ring_sum(x: Any) -> Any:
            def step(carry: Any, _: Any) -> Any:
                block, total = carry
                return (lax.ppermute(block, "x", ring), total + block), None

            return lax.scan(step, (x, jnp.zeros_like(x)), None, length=n)[0][1]

        def nested(x: Any) -> Any:
            def outer(x: Any, _: Any) -> Any:
                return lax.fori_loop(0, 3, lambda i, x: lax.ppermute(jnp.sin(x), "x", ring), x), lax.psum(x, "x")

            return lax.scan(outer, x, None, length=2)[0]

        def until_small(x: Any) -> Any:
            return lax.while_loop(lambda x: lax.psum(jnp.sum(x), "x") > 1, lambda x: lax.ppermute(x / 2, "x", ring), x)

        def branches(x: Any) -> Any:
            return lax.cond(
                lax.psum(x[0], "x") > 0, lambda x: lax.psum(x, "x"), lambda x: lax.ppermute(x, "x", ring), x
            )

        def unrolled(x: Any) -> Any:
            for _ in range(4):
                x = lax.ppermute(jnp.sin(x), "x", ring)
            return x

        for name, body in (("fori", fori), ("ring", ring_sum), ("nested", nested), ("branches", branches)):
            yield self.mapped(f"loop_{name}", body, SMALL)
        yield self.mapped("loop_until", until_small, SMALL)
        yield self.mapped("loop_unrolled", unrolled, SMALL)
        yield self.mapped("loop_fori_at", fori, THRESHOLD)
        yield self.mapped("loop_ring_gradient", lambda x: jax.grad(lambda x: jnp.sum(ring_sum(x) ** 2))(x), SMALL)

    def combined(self) -> Iterator[Program]:
        def each(*xs: Any) -> Any:
            return tuple(lax.psum(x, "x") for x in xs)

        # 24 MiB together: below XLA's limit for combining, above the threshold for NVSHMEM.
        yield self.mapped("combined_past_threshold", each, *[8 << 20] * 3)
        yield self.mapped("combined_small", each, *[SMALL] * 4)
        yield self.mapped("combined_one_too_large", each, SMALL, THRESHOLD, SMALL)

        def permutes(*xs: Any) -> Any:
            return tuple(lax.ppermute(x, "x", [(i, (i + 1) % self.count) for i in range(self.count)]) for x in xs)

        yield self.mapped("combined_permutes", permutes, *[SMALL] * 3)

        def mixed(x: Any, y: Any) -> Any:
            return lax.psum(x, "x"), lax.all_gather(y, "x", tiled=True), lax.pmax(x, "x")

        yield self.mapped("combined_mixed", mixed, SMALL, SMALL)
