"""Distributed attention on cuDNN's interface: output and log-sum-exp of a block, a backward from those of all blocks.

No GPU is here. Two functions with cuDNN's contract stand in for it; tests/gpu_aot compiles the calls themselves.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from long_context.models.llama import causal_attention
from long_context.parallel import cudnn_attention
from long_context.parallel.gathered_attention import gathered_attention
from long_context.parallel.mesh import make_mesh
from long_context.parallel.mesh_shape import MeshShape
from long_context.parallel.ring_attention import ring_attention
from long_context.parallel.zigzag import zigzag_order
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.trainer import train

pytestmark = pytest.mark.usefixtures("quick_compilation")

BATCH, SEQUENCE, HEADS, KV_HEADS, HEAD_DIM = 2, 32, 4, 2, 16


def scores(q, k, causal):
    """[batch, heads, query, key]; each head of k serves several of q."""
    found = jnp.einsum("bnqd,bnkd->bnqk", q, jnp.repeat(k, q.shape[1] // k.shape[1], axis=1)) / np.sqrt(HEAD_DIM)
    return jnp.where(jnp.tri(*found.shape[2:], dtype=bool), found, -jnp.inf) if causal else found


def forward(q, k, v, causal):
    assert q.shape[1] % k.shape[1] == 0
    assert not causal or q.shape[2] == k.shape[2], "cuDNN's causal mask starts at the upper left corner"
    found = scores(q, k, causal)
    normaliser = jax.nn.logsumexp(found, axis=-1)
    weights = jnp.exp(found - normaliser[..., None])
    return jnp.einsum("bnqk,bnkd->bnqd", weights, jnp.repeat(v, q.shape[1] // v.shape[1], axis=1)), normaliser


def backward(q, k, v, normaliser, out, gradient, causal):
    group = q.shape[1] // k.shape[1]

    def summed(x):  # over the heads that share a head of k
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)

    weights = jnp.exp(scores(q, k, causal) - normaliser[..., None])
    d_weights = jnp.einsum("bnqd,bnkd->bnqk", gradient, jnp.repeat(v, group, axis=1))
    d_scores = weights * (d_weights - (gradient * out).sum(-1, keepdims=True)) / np.sqrt(HEAD_DIM)
    d_q = jnp.einsum("bnqk,bnkd->bnqd", d_scores, jnp.repeat(k, group, axis=1))
    d_k, d_v = jnp.einsum("bnqk,bnqd->bnkd", d_scores, q), jnp.einsum("bnqk,bnqd->bnkd", weights, gradient)
    return d_q, summed(d_k), summed(d_v)


@pytest.mark.parametrize("scheme", [ring_attention, gathered_attention])
@pytest.mark.parametrize("shape", [MeshShape(context=4), MeshShape(data=2, context=2, tensor=2)], ids=str)
def test_blocks_with_the_contract_of_cudnn_give_exact_attention(scheme, shape, monkeypatch) -> None:
    monkeypatch.setattr(cudnn_attention, "forward", forward)
    monkeypatch.setattr(cudnn_attention, "backward", backward)
    mesh = make_mesh(shape, jax.devices()[: shape.devices])
    held = P(("data", "fsdp"), "context", "tensor")
    order = zigzag_order(SEQUENCE, shape.context)

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(held,) * 3, out_specs=held)
    def attention(q, k, v):
        return scheme(q, k, v, "context", blocks=cudnn_attention.CUDNN_BLOCKS)

    keys = jax.random.split(jax.random.key(0), 4)
    whole = [
        jax.random.normal(key, (BATCH, SEQUENCE, heads, HEAD_DIM))
        for key, heads in zip(keys, (HEADS, KV_HEADS, KV_HEADS, HEADS), strict=True)
    ]
    *arguments, gradient = (jax.device_put(x[:, order], NamedSharding(mesh, held)) for x in whole)

    def results(attention, gradient, *arguments):
        out, pull = jax.vjp(attention, *arguments)
        return out, *pull(gradient)

    got = jax.jit(functools.partial(results, attention))(gradient, *arguments)
    want = results(causal_attention, whole[3], *whole[:3])
    for name, a, b in zip(("out", "dq", "dk", "dv"), got, want, strict=True):
        error = np.abs(np.asarray(a)[:, np.argsort(order)] - b).max() / np.abs(b).max()
        assert error <= 2e-5, f"{name} is off by {error:.1e} of its largest value"


def test_cudnn_without_16_bits_or_without_gpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="attention-blocks cudnn computes in bf16 and dtype is f32"):
        TrainConfig(attention_blocks="cudnn")
    with pytest.raises(ConfigError, match="attention-blocks cudnn needs GPUs, and this job has cpus"):
        next(train(TrainConfig(attention_blocks="cudnn", dtype="bf16"), None))
