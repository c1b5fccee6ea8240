"""Llama-style decoder: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, layers run by `lax.scan`.

Plain functions over a pytree of parameters. How tokens attend to each other is passed in, so the same model
runs whole on one device (`causal_attention`) or spread over a mesh (`ring_attention`, inside `shard_map`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from xla_shmem.models.config import LlamaConfig

# (q [batch, tokens, heads, head_dim], k and v [batch, tokens, kv_heads, head_dim]) -> like q
Attention = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


class LayerParams(NamedTuple):
    """Parameters of all decoder layers, stacked along a leading axis of `layers`."""

    attention_norm: jax.Array  # [layers, width]
    query: jax.Array  # [layers, width, heads * head_dim]
    key: jax.Array  # [layers, width, kv_heads * head_dim]
    value: jax.Array  # [layers, width, kv_heads * head_dim]
    output: jax.Array  # [layers, heads * head_dim, width]
    mlp_norm: jax.Array  # [layers, width]
    gate: jax.Array  # [layers, width, hidden]
    up: jax.Array  # [layers, width, hidden]
    down: jax.Array  # [layers, hidden, width]


class Params(NamedTuple):
    """Parameters of the decoder, f32."""

    embedding: jax.Array  # [vocab, width]
    layers: LayerParams
    norm: jax.Array  # [width]
    head: jax.Array  # [width, vocab]


def init_params(config: LlamaConfig, key: jax.Array) -> Params:
    """Fresh parameters: normal with standard deviation 1/sqrt(fan-in), norms at one.

    Projections back into the residual stream are scaled down by sqrt(2 * layers), as in GPT-2.

    Args:
      config: sizes.
      key: JAX random key; the same key gives the same parameters on every process.
    """
    keys = iter(jax.random.split(key, 9))
    n, width, hidden = config.layers, config.width, config.hidden
    kv_width = config.kv_heads * config.head_dim

    def normal(*shape: int, scale: float = 1.0) -> jax.Array:
        return jax.random.normal(next(keys), shape) * (scale / math.sqrt(shape[-2]))

    into_residual = 1 / math.sqrt(2 * n)
    layers = LayerParams(
        attention_norm=jnp.ones((n, width)),
        query=normal(n, width, width),
        key=normal(n, width, kv_width),
        value=normal(n, width, kv_width),
        output=normal(n, width, width, scale=into_residual),
        mlp_norm=jnp.ones((n, width)),
        gate=normal(n, width, hidden),
        up=normal(n, width, hidden),
        down=normal(n, hidden, width, scale=into_residual),
    )
    return Params(
        embedding=jax.random.normal(next(keys), (config.vocab, width)),
        layers=layers,
        norm=jnp.ones(width),
        head=normal(width, config.vocab),
    )


def rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """`x / rms(x) * scale` over the last axis (Zhang, Sennrich: arXiv:1910.07467)."""
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps) * scale


class Rotation(NamedTuple):
    """Rotary position embedding: the angle of every pair of features at every position."""

    cos: jax.Array  # [tokens, 1, head_dim / 2]
    sin: jax.Array  # [tokens, 1, head_dim / 2]


def rotation(positions: jax.Array, head_dim: int, theta: float) -> Rotation:
    """Angles of rotary position embedding (Su et al.: arXiv:2104.09864).

    Args:
      positions: [tokens] position of each token in the whole sequence.
      head_dim: features of a head, even.
      theta: base of the frequencies.
    """
    half = head_dim // 2
    frequencies = theta ** (-jnp.arange(half) / half)
    angles = positions[:, None, None] * frequencies
    return Rotation(jnp.cos(angles), jnp.sin(angles))


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Rotates x [batch, tokens, heads, head_dim]; the first half of the features pairs with the second."""
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * by.cos - second * by.sin, second * by.cos + first * by.sin], axis=-1)


def causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention over a whole sequence in order, on one device.

    Args:
      q: [batch, tokens, heads, head_dim] queries, already rotated.
      k: [batch, tokens, kv_heads, head_dim] keys, already rotated; `heads` is a multiple of `kv_heads`.
      v: [batch, tokens, kv_heads, head_dim] values.

    Returns:
      [batch, tokens, heads, head_dim]
    """
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def logits(
    params: Params, tokens: jax.Array, positions: jax.Array, config: LlamaConfig, attention: Attention
) -> jax.Array:
    """Scores of the next token.

    Args:
      params: parameters for `config`.
      tokens: [batch, tokens] int.
      positions: [tokens] position of each token in the whole sequence.
      config: sizes.
      attention: causal attention over all tokens of the sequence, wherever they are held.

    Returns:
      [batch, tokens, vocab]
    """

    angles = rotation(positions, config.head_dim, config.rope_theta)

    def layer(x: jax.Array, p: LayerParams) -> tuple[jax.Array, None]:
        batch, length, _ = x.shape
        h = rms_norm(x, p.attention_norm, config.norm_eps)
        q = (h @ p.query).reshape(batch, length, config.heads, config.head_dim)
        k = (h @ p.key).reshape(batch, length, config.kv_heads, config.head_dim)
        v = (h @ p.value).reshape(batch, length, config.kv_heads, config.head_dim)
        mixed = attention(rotate(q, angles), rotate(k, angles), v)
        x = x + mixed.reshape(batch, length, config.width) @ p.output
        h = rms_norm(x, p.mlp_norm, config.norm_eps)
        return x + (jax.nn.silu(h @ p.gate) * (h @ p.up)) @ p.down, None

    x, _ = lax.scan(layer, params.embedding[tokens], params.layers)
    return rms_norm(x, params.norm, config.norm_eps) @ params.head


def next_token_loss(
    params: Params,
    tokens: jax.Array,
    targets: jax.Array,
    positions: jax.Array,
    config: LlamaConfig,
    attention: Attention,
) -> jax.Array:
    """Mean cross entropy of `targets` [batch, tokens], in nats per token; arguments as for `logits`."""
    log_probs = jax.nn.log_softmax(logits(params, tokens, positions, config, attention))
    return -jnp.take_along_axis(log_probs, targets[..., None], axis=-1).mean()
