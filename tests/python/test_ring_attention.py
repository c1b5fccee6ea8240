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
import functools, itertools, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, PartitionSpec as P
from xla_shmem.models.llama import causal_attention
from xla_shmem.models.ring_attention import ring_attention, zigzag_order

tolerance = float(sys.argv[1])
batch, sequence, heads, head_dim = 2, 64, 4, 16

@functools.partial(jax.jit, static_argnums=0)
def forward_and_backward(attention, q, k, v, weight):
    out, backward = jax.vjp(attention, q, k, v)
    return out, *backward(weight)

def compare(data, ring, kv_heads, scale):
    keys = jax.random.split(jax.random.key(0), 4)
    q, weight = (scale * jax.random.normal(key, (batch, sequence, heads, head_dim)) for key in keys[:2])
    k, v = (scale * jax.random.normal(key, (batch, sequence, kv_heads, head_dim)) for key in keys[2:])
    mesh = jax.make_mesh((data, ring), ("data", "context"), axis_types=(AxisType.Auto,) * 2,
                         devices=jax.devices()[: data * ring])
    spread = P("data", "context")
    order = zigzag_order(sequence, ring)
    back = np.argsort(order)
    sharded = jax.shard_map(functools.partial(ring_attention, axis_name="context"), mesh=mesh,
                            in_specs=(spread, spread, spread), out_specs=spread)

    def in_order(q, k, v):
        return sharded(q[:, order], k[:, order], v[:, order])[:, back]

    lowered = forward_and_backward.lower(in_order, q, k, v, weight)
    permutes = lowered.as_text().count("collective_permute")
    assert permutes == 4 * (ring - 1), f"{permutes}: keys, values and their gradients need {ring - 1} hops each"
    got = lowered.compile()(q, k, v, weight)
    want = forward_and_backward(causal_attention, q, k, v, weight)
    for name, g, w in zip(("out", "dq", "dk", "dv"), got, want, strict=True):
        error = np.abs(g - w).max() / np.abs(w).max()
        assert np.isfinite(g).all() and error <= tolerance * scale**2, f"{name}: off by {error} of the largest value"

for case in sys.argv[2:]:
    data, ring, kv_heads, scale = case.split(",")
    try:
        compare(int(data), int(ring), int(kv_heads), float(scale))
    except AssertionError as error:
        raise AssertionError(f"data {data}, ring {ring}, kv_heads {kv_heads}, scale {scale}: {error}") from None
"""


def run_on_virtual_devices(*cases: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", COMPARISON, str(TOLERANCE), *cases],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert result.returncode == 0, result.stderr[-2000:]


def test_ring_equals_attention_on_one_device() -> None:
    # data, ring, key/value heads (of 4 heads), scale of the inputs
    run_on_virtual_devices("1,1,4,1", "1,2,2,1", "1,4,2,1", "2,4,1,1")


def test_scores_far_beyond_the_range_of_exp_stay_exact() -> None:
    # Scores of some hundreds: exp overflows without the running maximum. Their rounding grows with them.
    run_on_virtual_devices("1,2,2,10")


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
