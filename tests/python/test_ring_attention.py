"""Ring attention equals attention on one device, forward and backward.

XLA fixes the number of CPU devices at the first client, so the comparison runs in a process of its own with
eight virtual devices; smaller meshes take the first of them.
"""

import os
import subprocess
import sys

import pytest

# f32 rounding of sums over at most 64 keys and 16 features in another order, some 64 x 2^-24.
TOLERANCE = 2e-5

COMPARISON = """
import functools, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, PartitionSpec as P
from xla_shmem.models.llama import causal_attention
from xla_shmem.models.ring_attention import ring_attention, zigzag_order

ring, heads, kv_heads, data, scale, tolerance = (type_(arg) for type_, arg in zip(
    (int, int, int, int, float, float), sys.argv[1:], strict=True))
sequence, head_dim = 64, 16
keys = jax.random.split(jax.random.key(0), 4)
q, weight = (scale * jax.random.normal(key, (2, sequence, heads, head_dim)) for key in keys[:2])
k, v = (scale * jax.random.normal(key, (2, sequence, kv_heads, head_dim)) for key in keys[2:])

mesh = jax.make_mesh((data, ring), ("data", "context"), axis_types=(AxisType.Auto,) * 2,
                     devices=jax.devices()[: data * ring])
spread = P("data", "context")
sharded = jax.jit(jax.shard_map(functools.partial(ring_attention, axis_name="context"), mesh=mesh,
                                in_specs=(spread, spread, spread), out_specs=spread))
order = zigzag_order(sequence, ring)

def in_order(q, k, v):
    return sharded(q[:, order], k[:, order], v[:, order])[:, np.argsort(order)]

def loss(attention, q, k, v):
    return jnp.sum(attention(q, k, v) * weight)

def check(name, got, want):
    error = np.abs(got - want).max() / np.abs(want).max()
    assert np.isfinite(got).all() and error <= tolerance, f"{name}: off by {error} of the largest value"

check("out", in_order(q, k, v), causal_attention(q, k, v))
got = jax.grad(functools.partial(loss, in_order), argnums=(0, 1, 2))(q, k, v)
want = jax.grad(functools.partial(loss, causal_attention), argnums=(0, 1, 2))(q, k, v)
for name, g, w in zip(("dq", "dk", "dv"), got, want, strict=True):
    check(name, g, w)
hlo = sharded.lower(q, k, v).compile().as_text()
permutes = hlo.count(" collective-permute(") + hlo.count(" collective-permute-start(")
assert permutes == 2 * (ring - 1), f"{permutes} permutes for keys and values over {ring - 1} hops"
"""


def run_on_virtual_devices(script: str, *arguments: object) -> None:
    result = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.mark.parametrize(
    ("ring", "heads", "kv_heads", "data"),
    [(1, 4, 4, 1), (2, 4, 2, 1), (4, 4, 2, 1), (4, 4, 1, 2), (8, 2, 2, 1)],
    ids=["one rank", "two ranks, grouped heads", "four ranks, grouped heads", "2 x 4 mesh", "eight ranks"],
)
def test_ring_equals_attention_on_one_device(ring: int, heads: int, kv_heads: int, data: int) -> None:
    run_on_virtual_devices(COMPARISON, ring, heads, kv_heads, data, 1.0, TOLERANCE)


def test_scores_far_beyond_the_range_of_exp_stay_exact() -> None:
    # Scores of some hundreds: exp overflows without the running maximum. Their own rounding grows with them.
    run_on_virtual_devices(COMPARISON, 4, 2, 2, 1, 10.0, 100 * TOLERANCE)


def test_zigzag_deals_an_early_and_a_late_chunk_to_every_rank() -> None:
    from xla_shmem.models.ring_attention import zigzag_order

    assert zigzag_order(8, 2).tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert sorted(zigzag_order(64, 4).tolist()) == list(range(64))


def test_zigzag_of_a_sequence_that_does_not_divide_says_so() -> None:
    from xla_shmem.models.ring_attention import zigzag_order

    with pytest.raises(ValueError, match="sequence 12 does not divide into 2 x 4 zig-zag chunks"):
        zigzag_order(12, 4)


@pytest.mark.parametrize(
    ("local", "heads", "kv_heads", "message"),
    [
        (5, 4, 2, "two equal halves on every rank, got 5 tokens"),
        (4, 4, 3, "4 query heads do not divide into 3"),
    ],
)
def test_wrong_shapes_are_named(local: int, heads: int, kv_heads: int, message: str) -> None:
    import jax.numpy as jnp

    from xla_shmem.models.ring_attention import ring_attention

    q, kv = jnp.zeros((1, local, heads, 8)), jnp.zeros((1, local, kv_heads, 8))
    with pytest.raises(ValueError, match=message):
        ring_attention(q, kv, kv, axis_name="context")
