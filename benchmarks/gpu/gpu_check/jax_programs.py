"""Compares unchanged JAX programs on SHMEM with NumPy, bit for bit, with equal bits on all ranks.

    python -m gpu_check.ranks --ranks=N --gpus=G --nvshmem-flag -- gpu_check.jax_programs [--graphs]

Values are small integers, so sums are exact in every order and type, also in matmuls on tensor cores. Programs with a
collective on NCCL do not run: NCCL refuses ranks that share a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_check import exchange, records

if TYPE_CHECKING:
    from gpu_check.jax_job import JaxJob


@dataclass(frozen=True)
class Program:
    """A program and its expected results.

    Attributes:
      expected: the global results.
      moves: whether it has collectives that must run on SHMEM if there are several ranks.
      runs: number of runs without waiting in between; the last result counts.
    """

    function: Any
    arguments: tuple[Any, ...]
    expected: tuple[np.ndarray, ...]
    moves: bool = True
    runs: int = 3


PROGRAMS: dict[str, Callable[[JaxJob], Program | None]] = {}


def program(build: Callable[[JaxJob], Program | None]) -> Callable[[JaxJob], Program | None]:
    """Adds a builder to the list. It returns None if the job has too few ranks for its program."""
    PROGRAMS[build.__name__] = build
    return build


def small(seed: int, *shape: int) -> np.ndarray:
    """Returns integers from -3 to 3, equal on all ranks."""
    return np.random.default_rng(seed).integers(-3, 4, shape)


def _spec(*axes: Any) -> Any:
    from jax.sharding import PartitionSpec

    return PartitionSpec(*axes)


@program
def ring_in_a_scan_beside_a_matmul(job: JaxJob) -> Program:
    """As in ring attention: every rank multiplies every block while the next one is transferred."""
    import jax.numpy as jnp
    from jax import lax

    x = small(1, job.n, 512, 256).astype(np.float32)
    w = small(2, 256, 128).astype(np.float32)

    def body(x: Any, w: Any) -> Any:
        def step(carry: Any, scale: Any) -> Any:
            block, total = carry
            return (lax.ppermute(block, "x", job.ring), total + scale * (block @ w)), None

        scales = jnp.arange(1, job.n + 1, dtype=jnp.float32)
        return lax.scan(step, (x, jnp.zeros((*x.shape[:2], w.shape[1]), x.dtype)), scales)[0][1]

    blocks = np.stack([sum((t + 1) * x[(rank - t) % job.n] @ w for t in range(job.n)) for rank in range(job.n)])
    function = job.program(body, (_spec("x"), _spec()), _spec("x"))
    return Program(function, (job.put(x, "x"), job.put(w)), (blocks,))


def _psum(job: JaxJob, seed: int, dtype: Any, *shape: int) -> Program:
    from jax import lax

    x = small(seed, job.n, *shape).astype(dtype)
    function = job.program(lambda x: lax.psum(x, "x"), (_spec("x"),), _spec("x"))
    total = np.broadcast_to(x.astype(np.float64).sum(0, keepdims=True), x.shape).astype(dtype)
    return Program(function, (job.put(x, "x"),), (total,))


@program
def psum_of_4_KiB(job: JaxJob) -> Program:
    """One-shot."""
    return _psum(job, 3, np.float32, 1024)


@program
def psum_of_12_MiB(job: JaxJob) -> Program:
    """Two-shot, with a last chunk that does not fill a slot."""
    return _psum(job, 4, np.float32, 3 << 20 | 5)


@program
def psum_of_bf16(job: JaxJob) -> Program:
    """A type whose sums accumulate in another type."""
    import ml_dtypes

    return _psum(job, 5, ml_dtypes.bfloat16, 100_003)


@program
def largest_and_smallest_integer(job: JaxJob) -> Program:
    """Reductions other than sums."""
    from jax import lax

    x = small(6, job.n, 5000).astype(np.int32)
    function = job.program(lambda x: (lax.pmax(x, "x"), lax.pmin(x, "x")), (_spec("x"),), (_spec("x"), _spec("x")))
    wide = [np.broadcast_to(f(x, 0, keepdims=True), x.shape) for f in (np.max, np.min)]
    return Program(function, (job.put(x, "x"),), tuple(wide))


@program
def sums_that_XLA_combines(job: JaxJob) -> Program:
    """Several gradients of one type."""
    from jax import lax

    leaves = [small(7 + i, job.n, size).astype(np.float32) for i, size in enumerate((17, 4096, 70_001))]
    function = job.program(lambda *leaves: lax.psum(leaves, "x"), (_spec("x"),) * 3, (_spec("x"),) * 3)
    totals = tuple(np.broadcast_to(leaf.sum(0, keepdims=True), leaf.shape) for leaf in leaves)
    return Program(function, tuple(job.put(leaf, "x") for leaf in leaves), totals)


@program
def permutes_both_ways(job: JaxJob) -> Program:
    """Two transfers at once."""
    from jax import lax

    x, y = (small(10 + i, job.n, 65_537).astype(np.float32) for i in range(2))
    back = [(b, a) for a, b in job.ring]

    def body(x: Any, y: Any) -> Any:
        return lax.ppermute(x, "x", job.ring), lax.ppermute(y, "x", back)

    function = job.program(body, (_spec("x"), _spec("x")), (_spec("x"), _spec("x")))
    return Program(function, (job.put(x, "x"), job.put(y, "x")), (np.roll(x, 1, 0), np.roll(y, -1, 0)))


@program
def open_chain(job: JaxJob) -> Program:
    """The first rank has no source and gets zeros."""
    from jax import lax

    x = small(12, job.n, 4099).astype(np.float32)
    function = job.program(lambda x: lax.ppermute(x, "x", job.ring[:-1]), (_spec("x"),), _spec("x"))
    want = np.roll(x, 1, 0)
    want[0] = 0
    return Program(function, (job.put(x, "x"),), (want,))


@program
def permute_of_64_MiB(job: JaxJob) -> Program:
    """Many slots."""
    from jax import lax

    x = np.random.default_rng(13).integers(-(2**31), 2**31 - 1, (job.n, 16 << 20), np.int32)
    function = job.program(lambda x: lax.ppermute(x, "x", job.ring), (_spec("x"),), _spec("x"))
    return Program(function, (job.put(x, "x"),), (np.roll(x, 1, 0),))


@program
def unrolled_ring_with_sums(job: JaxJob) -> Program:
    """Permutes and all-reduces in turn, each on the previous result."""
    from jax import lax

    x = small(14, job.n, 3000).astype(np.float32)

    def body(x: Any) -> Any:
        for _ in range(6):
            x = lax.ppermute(x, "x", job.ring) - lax.psum(x, "x") + x
        return x

    want = x.astype(np.float64)
    for _ in range(6):
        want = np.roll(want, 1, 0) - want.sum(0, keepdims=True) + want
    function = job.program(body, (_spec("x"),), _spec("x"))
    return Program(function, (job.put(x, "x"),), (want.astype(np.float32),))


@program
def sums_and_rings_of_sub_groups(job: JaxJob) -> Program | None:
    """On a mesh of 2 x n/2."""
    from jax import lax

    if job.n < 4 or job.n % 2:
        return None
    half = job.n // 2
    mesh = job.mesh_of((2, half), ("a", "b"))
    ring = [(i, (i + 1) % half) for i in range(half)]

    def body(x: Any) -> Any:
        return lax.psum(x, "b"), lax.psum(x, "a"), lax.ppermute(x, "b", ring)

    x = small(15, 2, half, 20_011).astype(np.float32)
    spec = _spec("a", "b")
    function = job.program(body, (spec,), (spec, spec, spec), mesh)
    over_b, over_a = (np.broadcast_to(x.sum(axis, keepdims=True), x.shape) for axis in (1, 0))
    return Program(function, (job.put(x, "a", "b", mesh=mesh),), (over_b, over_a, np.roll(x, 1, 1)))


@program
def matmul_that_the_partitioner_splits(job: JaxJob) -> Program:
    """No collective in the user's code."""
    import jax
    from jax.sharding import NamedSharding

    x, w = small(16, 256, 64 * job.n).astype(np.float32), small(17, 64 * job.n, 96).astype(np.float32)
    function = jax.jit(lambda x, w: x @ w, out_shardings=NamedSharding(job.mesh, _spec()))
    return Program(function, (job.put(x, None, "x"), job.put(w, "x", None)), (x @ w,))


@program
def donated_state_in_a_training_loop(job: JaxJob) -> Program:
    """Twenty runs without waiting, each on the buffers of the previous one."""
    from jax import lax

    x = small(18, job.n, 50_000).astype(np.float32)

    def body(x: Any) -> Any:
        total = lax.psum(x, "x")
        return lax.ppermute(x, "x", job.ring) - total + total

    function = job.program(body, (_spec("x"),), _spec("x"), donate_argnums=0)
    return Program(function, (job.put(x, "x"),), (np.roll(x, 20, 0),), runs=20)


def run(job: JaxJob, name: str, built: Program) -> None:
    """Compiles the program, checks its collectives, runs it and compares results."""
    from gpu_check.jax_job import collectives

    compiled = built.function.lower(*built.arguments).compile()
    ours, left = collectives(compiled)
    on_shmem = not left and (bool(ours) or job.n == 1 or not built.moves)
    detail = f"{len(ours)} calls of xla-shmem" + (f", on NCCL: {', '.join(left)}" if left else "")
    records.check(f"{name}: runs on SHMEM", on_shmem, detail)
    if left:
        records.left_out(name, "it would need NCCL")
        return
    donates = built.runs == 20
    arguments, results = built.arguments, None
    for _ in range(built.runs):
        results = compiled(*arguments)
        arguments = (results,) if donates else arguments
    problems, digest = [], hashlib.sha256()
    for result, want in zip(results if isinstance(results, tuple) else (results,), built.expected, strict=True):
        for shard in result.addressable_shards:
            got = np.asarray(shard.data)
            wrong = int((got != want[shard.index].astype(got.dtype)).sum())
            if wrong:
                problems.append(f"{wrong} of {got.size} elements wrong")
        if result.is_fully_replicated:
            digest.update(np.asarray(result.addressable_data(0)).tobytes())
    records.check(name, not problems, "; ".join(problems))
    records.same(name, digest.hexdigest())


def check_captured(folder: Path) -> None:
    """The whole operations must be in command buffers, according to XLA's thunk sequences."""
    files = list(folder.glob("*thunk_sequence_after_thunk_passes.txt"))
    if not files:
        records.left_out("calls in CUDA graphs", "this release of XLA does not dump its thunks")
        return
    captured = 0
    for file in files:
        inside: int | None = None
        for line in file.read_text(errors="replace").splitlines():
            found = re.match(r"^( *)\d+: (k\w+)", line)
            if not found:
                continue
            indent = len(found[1])
            if inside is not None and indent <= inside:
                inside = None
            if found[2] == "kCommandBuffer":
                inside = indent
            captured += inside is not None and found[2] == "kCustomCall"
    records.check("xla-shmem's calls are in CUDA graphs", captured > 0, f"{captured} in {len(files)} modules")


def main() -> None:
    """Runs all programs, also after one has failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", action="store_true", help="check that calls were captured into command buffers")
    graphs = parser.parse_args().graphs
    dump = Path(tempfile.mkdtemp(prefix="dump-", dir=os.environ[exchange.VARIABLE]))
    if graphs:
        os.environ["XLA_FLAGS"] += f" --xla_dump_to={dump} --xla_dump_hlo_as_text"
    from gpu_check.jax_job import JaxJob

    job = JaxJob()
    for name, build in PROGRAMS.items():
        began = time.monotonic()
        try:
            built = build(job)
            if built is None:
                records.left_out(name, f"{job.n} ranks are too few")
                continue
            run(job, name, built)
        except Exception as error:
            traceback.print_exc()
            records.check(name, False, f"{type(error).__name__}: {str(error)[:500]}")
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    if graphs:
        check_captured(dump)
    exchange.leave()


if __name__ == "__main__":
    main()
