"""Rotary position embedding (Su et al.: arXiv:2104.09864) with the scaling of Llama 3.1."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from long_context.models.llama_config import LlamaConfig, RopeScaling


class Rotation(NamedTuple):
    """The angle of every pair of features at every position, f32."""

    cos: jax.Array  # [tokens, 1, head_dim / 2]
    sin: jax.Array  # [tokens, 1, head_dim / 2]


def frequencies(config: LlamaConfig) -> NDArray[np.float32]:
    """Radians per position of every pair of features, [head_dim / 2]."""
    half = config.head_dim // 2
    unscaled: NDArray[np.float64] = config.rope_theta ** (-np.arange(half) / half)
    if config.rope_scaling is not None:
        unscaled = _scaled(unscaled, config.rope_scaling)
    return unscaled.astype(np.float32)


def _scaled(unscaled: NDArray[np.float64], scaling: RopeScaling) -> NDArray[np.float64]:
    waves = scaling.original * unscaled / (2 * math.pi)  # periods in the original length
    kept = np.clip((waves - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return (kept + (1 - kept) / scaling.factor) * unscaled


def rotation(positions: jax.Array, config: LlamaConfig) -> Rotation:
    """Angles at `positions` [tokens], the positions of the tokens in the whole sequence."""
    angles = positions[:, None, None] * jnp.asarray(frequencies(config))
    return Rotation(jnp.cos(angles), jnp.sin(angles))


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Rotates x [batch, tokens, heads, head_dim] in f32; the first half of the features pairs with the second."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * by.cos - second * by.sin, second * by.cos + first * by.sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)
