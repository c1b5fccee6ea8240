"""Cases for GPUs besides those of tests/e2e: overlap of a transfer with matmuls, and ring attention."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_permute import ring
from jax import lax
from jax.sharding import PartitionSpec as P

from xla_shmem.models.llama import causal_attention
from xla_shmem.parallel.ring_attention import ring_attention
from xla_shmem.parallel.zigzag import zigzag_order

# f32 rounding of sums over at most 64 keys and 16 features in another order (tests/training has the same bound).
_ATTENTION_TOLERANCE = 2e-5


@case(fast=("2x1", "4x1"), slow=())
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
    assert schedule[start:done].count("__cublas$") == 4, f"the matmuls are not between start and done in:\n{schedule}"
    expected = values
    for _ in range(4):
        expected = np.tanh(expected @ values)
    expected = np.roll(values, 1, 0) + expected
    for _ in range(5):
        for shard in function(operand).addressable_shards:
            np.testing.assert_allclose(np.asarray(shard.data), expected[shard.index], rtol=1e-5, atol=1e-5)


@case(fast=("2x1",), slow=("4x1",))
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


@case(fast=("2x1",), slow=("4x1",))
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
