"""Cases for GPUs besides those of tests/e2e: overlap with matmuls, ring attention, slices, every op against NumPy."""

from __future__ import annotations

import functools
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
from case_world import Case, World, case
from cases_permute import ring
from cases_ragged import exchange, put_exchange, send
from jax import lax
from jax.sharding import PartitionSpec as P

from long_context.models.llama import causal_attention
from long_context.parallel.ring_attention import ring_attention
from long_context.parallel.zigzag import zigzag_order

# Of their own, because tests/e2e runs all others on CPU, perhaps in the same run of pytest.
GPU_CASES: dict[str, Case] = {}
gpu_case = functools.partial(case, cases=GPU_CASES)

# f32 rounding of sums over at most 64 keys and 16 features in another order (tests/long_context has the same bound).
_ATTENTION_TOLERANCE = 2e-5


def _matmuls(module: str, instructions: str) -> int:
    """Returns how many of these instructions are matmuls: calls of cuBLAS, or fusions with a dot, by Triton."""
    computations = re.findall(r"^%(\S+) \(.*?\{$(.*?)^\}", module, re.MULTILINE | re.DOTALL)
    with_dot = {name for name, body in computations if " dot(" in body}
    called = re.findall(r" fusion\(.*? calls=%([\w.-]+)", instructions)
    return instructions.count("__cublas$") + sum(name in with_dot for name in called)


@gpu_case(fast=("2x1", "4x1"), slow=())
def matmuls_between_start_and_done_do_not_disturb_the_transfer(world: World) -> None:
    values = world.random.standard_normal((world.n, 256, 256)).astype(np.float32) / 32

    def body(x: jax.Array) -> jax.Array:
        received, product = lax.ppermute(x[0], "x", ring(world.n)), x[0]
        for _ in range(4):
            product = jnp.tanh(jnp.dot(product, x[0], precision="highest"))
        return (received + product)[None]

    function = world.shard_map(body)
    operand = world.put(values)
    text = function.lower(operand).compile().as_text()
    schedule = text[text.index("ENTRY") :]
    start = schedule.find('"xla_shmem.permute_start"')
    done = schedule.find('"xla_shmem.permute_done"')
    assert _matmuls(text, schedule[start:done]) == 4, f"the matmuls are not between start and done in:\n{schedule}"
    expected = values
    for _ in range(4):
        expected = np.tanh(expected @ values)
    expected = np.roll(values, 1, 0) + expected
    for _ in range(5):
        for shard in function(operand).addressable_shards:
            np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-5, atol=1e-5)


@gpu_case(fast=("2x1", "4x1"), slow=())
def ragged_rows_beside_a_matmul(world: World) -> None:
    moved = exchange(world, [list(range(world.n))], 200, (16,), "float32")
    values = world.random.standard_normal((world.n, 256, 256)).astype(np.float32) / 32

    def body(w: jax.Array, x: jax.Array, y: jax.Array, *numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
        product = w[0]
        for _ in range(4):
            product = jnp.tanh(jnp.dot(product, w[0], precision="highest"))
        return send(x, y, *numbers), product[None]

    mapped = jax.shard_map(body, mesh=world.mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    # XLA's other scheduler moves no work between start and done of this op.
    function = jax.jit(mapped, compiler_options={"xla_gpu_enable_latency_hiding_scheduler": True})
    operands = [world.put(values), *put_exchange(world, moved)]
    text = function.lower(*operands).compile().as_text()
    schedule = text[text.index("ENTRY") :]
    start = schedule.find('"xla_shmem.ragged_all_to_all_start"')
    done = schedule.find('"xla_shmem.ragged_all_to_all_done"')
    assert _matmuls(text, schedule[start:done]), f"no matmul is between start and done in:\n{schedule}"
    expected = values
    for _ in range(4):
        expected = np.tanh(expected @ values)
    for _ in range(5):
        sent, product = function(*operands)
        world.equals(sent, moved.expected)
        for shard in product.addressable_shards:
            np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-5, atol=1e-5)


@gpu_case(fast=(), slow=("4x1", "8x1"))
def pairs_of_a_permute_run_without_those_that_take_another_branch(world: World) -> None:
    values = world.random.integers(0, 50, (world.n, 100)).astype(np.float32)
    pairs = [(i, i ^ 1) for i in range(world.n)]

    def body(x: jax.Array) -> jax.Array:
        moved = lax.cond(lax.axis_index("x") < 2, lambda x: lax.ppermute(x, "x", pairs), lambda x: x, x)
        return moved + lax.psum(x, "x")

    function = world.shard_map(body)
    operand = world.put(values)
    for _ in range(3):
        world.equals(function(operand), np.concatenate([values[[1, 0]], values[2:]]) + values.sum(0))


@gpu_case(fast=("2x1",), slow=("4x1",))
def ring_attention_equals_attention_on_the_cpu_forward_and_backward(world: World) -> None:
    batch, sequence, heads, kv_heads, features = 1, 16 * world.n, 4, 2, 8
    order = zigzag_order(sequence, world.n)
    whole = [
        world.random.standard_normal((batch, sequence, number, features)).astype(np.float32)
        for number in (heads, kv_heads, kv_heads, heads)
    ]
    held = P(None, "x")

    @functools.partial(jax.shard_map, mesh=world.mesh, in_specs=(held,) * 3, out_specs=held)
    def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return ring_attention(q, k, v, "x")

    def forward_and_backward(q: jax.Array, k: jax.Array, v: jax.Array, gradient: jax.Array) -> list[jax.Array]:
        out, pull = jax.vjp(attention, q, k, v)
        return [out, *pull(gradient)]

    function = jax.jit(forward_and_backward)
    operands = [world.put(x[:, order], None, "x") for x in whole]
    world.uses_shmem(function, *operands)
    with jax.default_matmul_precision("highest"):
        results = function(*operands)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        out, pull = jax.vjp(causal_attention, *map(jnp.asarray, whole[:3]))
        expected = [np.asarray(x) for x in (out, *pull(jnp.asarray(whole[3])))]
    for name, result, want in zip(("out", "dq", "dk", "dv"), results, expected, strict=True):
        held_want = want[:, order]
        for shard in result.addressable_shards:
            error = np.abs(np.asarray(shard.data) - held_want[shard.index]).max() / np.abs(want).max()
            assert error <= _ATTENTION_TOLERANCE, f"{name} is off by {error:.1e} of its largest value"


@gpu_case(fast=("2x1",), slow=("4x1",))
def branches_inside_a_loop_take_turns_between_collectives_and_none(world: World) -> None:
    values = world.random.integers(-50, 50, (world.n, 32)).astype(np.float32)

    def step(i: jax.Array, v: jax.Array) -> jax.Array:
        branches = [
            lambda v: lax.psum(v, "x") / world.n,
            lambda v: lax.ppermute(v, "x", ring(world.n)) + 1,
            lambda v: v - 1,
        ]
        return lax.switch(i % 3, branches, v)

    function = world.shard_map(
        lambda x, steps: lax.fori_loop(0, steps, step, x), in_specs=(P("x"), P()), out_specs=P("x")
    )
    operand = world.put(values)
    for steps in (0, 1, 5, 9, 2):
        expected = values
        for i in range(steps):
            mean = np.broadcast_to(expected.sum(0, dtype=np.float32) / np.float32(world.n), expected.shape)
            expected = [mean, np.roll(expected, 1, 0) + 1, expected - 1][i % 3]
        for shard in function(operand, jax.device_put(np.int32(steps))).addressable_shards:
            np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-6)


@gpu_case(fast=("2x1",), slow=("4x1",))
def slices_of_a_stack_are_moved_into_other_stacks(world: World) -> None:
    # Small integers, so that products and sums are exact.
    values = world.random.integers(-3, 4, (world.n, 5, 32, 64)).astype(np.float32)
    weights = world.random.integers(-3, 4, (64, 64)).astype(np.float32)

    def step(w: jax.Array, layer: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        return w, (lax.ppermute(layer, "x", ring(world.n)), lax.psum(layer, "x"), layer @ w)

    def body(stack: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        moved, summed, product = lax.scan(step, w, stack[0])[1]
        last = lax.ppermute(stack[0, 4:], "x", ring(world.n))
        return moved[None], summed[None], product[None], last[None]

    function = world.shard_map(body, in_specs=(P("x"), P()), out_specs=P("x"))
    operands = world.put(values), world.put(weights, None)
    world.uses_shmem(function, *operands)
    # From 0.11 on XLA puts cuBLAS's matmul, but no collective, into a fusion with the slices that it reads and writes.
    if "--xla_gpu_enable_triton_gemm=false" in os.environ.get("XLA_FLAGS", ""):
        fused = re.search(r"%dynamic_slice_fusion[.\d]* = ", function.lower(*operands).compile().as_text())
        assert bool(fused) == (jax.__version_info__ >= (0, 11))
    expected = (
        np.roll(values, 1, 0),
        np.broadcast_to(values.sum(0), values.shape),
        values @ weights,
        np.roll(values[:, 4:], 1, 0),
    )
    for _ in range(3):
        for result, want in zip(function(*operands), expected, strict=True):
            world.equals(result, want)


#: Every width, and odd numbers of elements, so that parts are aligned to their elements only.
_MOVED = ("bool", "int8", "float16", "bfloat16", "float32", "complex64", "float64", "complex128")


def _values(world: World, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return world.random.integers(0, 2 if dtype == "bool" else 100, shape).astype(jnp.dtype(dtype))


@gpu_case(fast=("2x1", "4x1"), slow=())
def gathers_scatters_and_exchanges_of_every_width(world: World) -> None:
    n, k = world.n, 333

    def body(x: jax.Array) -> tuple[jax.Array, ...]:
        whole = lax.all_gather(x[0], "x", tiled=True)
        exchanged = lax.all_to_all(x[0].reshape(n, k), "x", split_axis=0, concat_axis=0, tiled=False)
        return whole[None], exchanged[None]

    for dtype in _MOVED:
        terms = _values(world, (n, n * k), dtype)
        function, operand = world.shard_map(body), world.put(terms)
        world.uses_shmem(function, operand)
        whole, exchanged = function(operand)
        world.equals(whole, np.broadcast_to(terms.ravel(), (n, n * n * k)))
        world.equals(exchanged, np.swapaxes(terms.reshape(n, n, k), 0, 1))


@gpu_case(fast=("2x1", "4x1"), slow=())
def scattered_and_whole_sums_of_every_size(world: World) -> None:
    n = world.n
    for dtype, k in (("int32", 1), ("int8", 77), ("float32", 5001), ("bfloat16", 40_001)):
        # Small whole numbers: their sums are exact in every type.
        terms = _values(world, (n, n * k), "int8").astype(jnp.dtype(dtype)) % 8
        function = world.shard_map(lambda x: (lax.psum_scatter(x[0], "x", tiled=True)[None], lax.psum(x[0], "x")[None]))
        operand = world.put(terms)
        world.uses_shmem(function, operand)
        scattered, total = function(operand)
        expected = terms.astype(np.float32).sum(0).astype(terms.dtype)
        world.equals(scattered, expected.reshape(n, k))
        world.equals(total, np.broadcast_to(expected, (n, n * k)))


@gpu_case(fast=("4x1",), slow=())
def groups_gather_scatter_and_exchange_by_themselves(world: World) -> None:
    n, k = world.n, 1000
    groups = [list(range(0, n, 2)), list(range(1, n, 2))]
    members = n // 2

    def body(x: jax.Array) -> tuple[jax.Array, ...]:
        options = {"axis_index_groups": groups, "tiled": True}
        return (
            lax.all_gather(x[0], "x", **options)[None],
            lax.psum_scatter(x[0], "x", **options)[None],
            lax.all_to_all(x[0], "x", split_axis=0, concat_axis=0, **options)[None],
        )

    terms = world.random.integers(-99, 99, (n, members * k)).astype(np.int32)
    function, operand = world.shard_map(body), world.put(terms)
    world.uses_shmem(function, operand)
    whole, scattered, exchanged = function(operand)
    expected: tuple[np.ndarray, ...] = tuple(
        np.empty((n, size), np.int32) for size in (members * members * k, k, members * k)
    )
    for group in groups:
        of_group = terms[group]
        expected[0][group] = of_group.ravel()
        expected[1][group] = of_group.sum(0, dtype=np.int32).reshape(members, k)
        expected[2][group] = np.swapaxes(of_group.reshape(members, members, k), 0, 1).reshape(members, -1)
    for result, want in zip((whole, scattered, exchanged), expected, strict=True):
        world.equals(result, want)


@gpu_case(fast=("2x1", "4x1"), slow=())
def every_op_in_a_loop_between_permutes(world: World) -> None:
    n, k = world.n, 64

    def step(_: jax.Array, x: jax.Array) -> jax.Array:
        x = lax.ppermute(x, "x", ring(n))
        x = lax.all_to_all(x, "x", split_axis=0, concat_axis=0, tiled=True)
        x = lax.psum_scatter(lax.all_gather(x, "x", tiled=True), "x", tiled=True)
        return x - lax.psum(x, "x") % 7

    terms = world.random.integers(-9, 9, (n, n * k)).astype(np.int32)
    function = world.shard_map(lambda x: lax.fori_loop(0, 5, step, x[0])[None])
    operand = world.put(terms)
    world.uses_shmem(function, operand)
    with np.errstate(over="ignore"):
        expected = terms
        for _ in range(5):
            expected = np.roll(expected, 1, 0)
            expected = np.swapaxes(expected.reshape(n, n, k), 0, 1).reshape(n, -1)
            expected = expected * np.int32(n)
            # The remainder has the sign of the divisor.
            expected = expected - expected.sum(0, dtype=np.int32) % np.int32(7)
    world.equals(function(operand), expected)
