"""Programs with explicit collectives: every op, size, dtype, group and mesh that the rules distinguish.

docs/differences.md refers to the names of the programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from program_maker import SMALL, THRESHOLD, Program, ProgramMaker, permute, psum, psum_of


class CollectivePrograms(ProgramMaker):
    def __iter__(self) -> Iterator[Program]:
        yield from self.all_reduce_sizes()
        yield from self.permutes()
        yield from self.unconsidered_ops()
        yield from self.groups()
        yield from self.mesh_axes()
        yield from self.permuted_meshes()
        yield from self.subsets()

    def all_reduce_sizes(self) -> Iterator[Program]:
        dtypes = [jnp.float32, jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.complex64]
        dtypes += [jnp.int4, jnp.int8, jnp.uint16, jnp.int32]
        for dtype in dtypes:
            element = np.dtype(dtype).itemsize
            for where, size in (("below", THRESHOLD - element), ("at", THRESHOLD), ("above", THRESHOLD + element)):
                yield self.mapped(f"all_reduce_{np.dtype(dtype).name}_{where}", psum, size, dtype=dtype)
        for size in (4, SMALL, 1 << 20, 64 << 20):
            yield self.mapped(f"all_reduce_{size}_bytes", psum, size)
        yield self.mapped("all_reduce_max_below", lambda x: lax.pmax(x, "x"), THRESHOLD - 4)
        yield self.mapped("all_reduce_min_at", lambda x: lax.pmin(x, "x"), THRESHOLD)
        yield self.mapped("all_reduce_mean", lambda x: lax.pmean(x, "x"), SMALL)

    def permutes(self) -> Iterator[Program]:
        n, k = self.count, self.per_process
        ring = [(i, (i + 1) % n) for i in range(n)]
        for size in (4, SMALL, THRESHOLD - 4, THRESHOLD, 64 << 20):
            yield self.mapped(f"permute_ring_{size}_bytes", permute(ring), size)
        for dtype in (jnp.bfloat16, jnp.float8_e4m3fn, jnp.complex64, jnp.int4, jnp.int8):
            yield self.mapped(f"permute_ring_{np.dtype(dtype).name}", permute(ring), SMALL, dtype=dtype)
        patterns = {
            "reverse_ring": [(target, source) for source, target in ring],
            "chain": ring[:-1],
            "one_pair": [(0, 1)],
            "far_pair": [(0, n - 1)],
            "swap_neighbours": [(i, i ^ 1) for i in range(n)],
            "swap_halves": [(i, (i + n // 2) % n) for i in range(n)],
            "to_self": [(i, i) for i in range(n)],
            "ring_in_process": [(p[i], p[(i + 1) % k]) for p in self.processes() for i in range(k)],
            "chain_in_process": [(i, i + 1) for i in range(n - 1) if i // k == (i + 1) // k] or [(0, 0)],
            "next_process": [(i, (i + k) % n) for i in range(n)],
            "mostly_in_process": [(i, i) for i in range(n - 2)] + [(n - 2, n - 1), (n - 1, n - 2)],
        }
        for name, pairs in patterns.items():
            yield self.mapped(f"permute_{name}", permute(pairs), SMALL)

    def unconsidered_ops(self) -> Iterator[Program]:
        n = self.count
        for label, size in (("small", SMALL), ("large", 64 << 20)):
            yield self.mapped(f"all_gather_{label}", lambda x: lax.all_gather(x, "x", tiled=True), size)
            yield self.mapped(
                f"reduce_scatter_{label}", lambda x: lax.psum_scatter(x, "x", tiled=True), max(size, 4 * n)
            )
            yield self.mapped(
                f"all_to_all_{label}", lambda x: lax.all_to_all(x.reshape(n, -1), "x", 0, 0).reshape(-1), size
            )

    def groups(self) -> Iterator[Program]:
        n, k = self.count, self.per_process
        groups = {
            "alone": [[i] for i in range(n)],
            "pairs": [[i, i + 1] for i in range(0, n, 2)],
            "per_process": self.processes(),
            "halves": [list(range(n // 2)), list(range(n // 2, n))],
            "across": [list(range(i, n, k)) for i in range(k)],
            "outer_and_inner": [[0, n - 1], list(range(1, n - 1))],
        }
        for name, ids in groups.items():
            for label, size in (("small", SMALL), ("at", THRESHOLD)):
                yield self.mapped(f"groups_{name}_{label}", psum_of(ids), size)
        # Unequal pairs: some within a process, some across processes.
        shifted = [[0, 1], *([i, i + 1] for i in range(3, n - 1, 2)), [2, n - 1]]
        yield self.mapped("groups_unlike", psum_of(shifted), SMALL)
        for name in ("per_process", "across"):
            ids = groups[name]

            def gather(x: Any, ids: list[list[int]] = ids) -> Any:
                return lax.all_gather(x, "x", axis_index_groups=ids, tiled=True)

            yield self.mapped(f"all_gather_groups_{name}", gather, SMALL)

    def mesh_axes(self) -> Iterator[Program]:
        mesh = self.grid()
        rows = mesh.shape["a"]
        for axis in ("a", "b"):
            yield self.mapped(f"axis_{axis}_all_reduce", lambda x, axis=axis: lax.psum(x, axis), SMALL, mesh=mesh)
            pairs = [(i, (i + 1) % mesh.shape[axis]) for i in range(mesh.shape[axis])]
            yield self.mapped(
                f"axis_{axis}_permute", lambda x, a=axis, p=pairs: lax.ppermute(x, a, p), SMALL, mesh=mesh
            )
        yield self.mapped("axis_both_all_reduce", lambda x: lax.psum(x, ("a", "b")), SMALL, mesh=mesh)
        yield self.mapped("axis_one_after_the_other", lambda x: lax.psum(lax.psum(x, "a"), "b"), SMALL, mesh=mesh)
        yield self.mapped(
            "axis_a_chain", lambda x: lax.ppermute(x, "a", [(i, i + 1) for i in range(rows - 1)]), SMALL, mesh=mesh
        )

    def permuted_meshes(self) -> Iterator[Program]:
        n, k = self.count, self.per_process
        strided = self.devices.reshape(-1, k if k < n else 2).T.reshape(-1)
        swapped = [*self.devices[-1:], *self.devices[1:-1], self.devices[0]]
        for label, order in (("reversed", self.devices[::-1]), ("strided", strided), ("swapped", swapped)):
            line, grid = self.line(order), self.grid(order)
            neighbours = [(i, i ^ 1) for i in range(n)]
            ring = [(p[i], p[(i + 1) % k]) for p in self.processes() for i in range(k)]
            yield self.mapped(f"permuted_{label}_all", psum, SMALL, mesh=line)
            yield self.mapped(f"permuted_{label}_groups", psum_of(self.processes()), SMALL, mesh=line)
            across = [list(range(i, n, k)) for i in range(k)]
            yield self.mapped(f"permuted_{label}_across", psum_of(across), SMALL, mesh=line)
            yield self.mapped(f"permuted_{label}_swap", permute(neighbours), SMALL, mesh=line)
            yield self.mapped(f"permuted_{label}_ring", permute(ring), SMALL, mesh=line)
            yield self.mapped(f"permuted_{label}_axis", lambda x: lax.psum(x, "b"), SMALL, mesh=grid)

    def subsets(self) -> Iterator[Program]:
        n, k = self.count, self.per_process
        half = max(k // 2, 1)
        subsets: dict[str, Any] = {
            "first_half": self.devices[: n // 2],
            "straddling": self.devices[half : half + k] if k > 1 and n > k else self.devices[:2],
            "far_apart": self.devices[[0, n - 1]],
            "two_ends": [*self.devices[: n // 4], *self.devices[-(n // 4) :]],
            "first_process": self.devices[:k] if k > 1 else self.devices[:2],
        }
        for label, devices in subsets.items():
            count = len(devices)
            ring = [(i, (i + 1) % count) for i in range(count)]
            yield self.mapped(f"subset_{label}_all_reduce", psum, SMALL, mesh=self.line(devices))
            yield self.mapped(f"subset_{label}_all_reduce_at", psum, THRESHOLD, mesh=self.line(devices))
            yield self.mapped(f"subset_{label}_permute", permute(ring), SMALL, mesh=self.line(devices))
