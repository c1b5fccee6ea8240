"""The transformer of the tutorial "Transformers with Tensor Parallelism" (University of Amsterdam, Deep Learning
Tutorials, scaling series), with the overlapped matmuls of `long_context.parallel.tensor_matmul`.

Activations are split by features over the mesh axis "tensor", so every layer starts with a gather-matmul and ends with
a matmul-scatter. A *parallel* block (Wang, Komatsuzaki: GPT-J; Dehghani et al.: arXiv:2302.05442) computes attention
and MLP from one normalised input and needs one gather and one scatter; a *sequential* block needs two of each.
Parameters are sharded over "data" too. The output layer works on slices of the sequence, so no rank holds all logits.

Queries and keys are normalised as in the tutorial: each rank's features give a partial query, every partial query is
normalised with its own scale, and the results are summed. So the number of ranks along "tensor" is part of the
architecture: a mesh with another number gives another model with another number of parameters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from long_context.parallel.tensor_matmul import arrivals, matmul_scatter

_TENSOR = "tensor"
_EPSILON = 1e-6
# Activations between layers, and inside a layer's halves: [batch, sequence, features].
_ACTIVATIONS = P("data", None, _TENSOR)  # type: ignore[no-untyped-call]
_SEQUENCE_SLICES = P("data", _TENSOR, None)  # type: ignore[no-untyped-call]

_matrix = nn.initializers.lecun_normal()


@dataclasses.dataclass(frozen=True)
class TutorialConfig:
    """Sizes of the model. The defaults are those of the tutorial's CPU run.

    `positions` is `learned` or `sinusoidal` (Vaswani et al.: arXiv:1706.03762).
    """

    vocab: int = 100
    sequence: int = 32
    width: int = 256
    layers: int = 6
    head_dim: int = 32
    hidden: int = 1024
    dropout: float = 0.1
    parallel_block: bool = True
    dtype: str = "bfloat16"
    positions: str = "learned"

    def check(self, mesh: Mesh) -> None:
        """Raises ValueError if a size does not divide over the mesh; the message names one that does."""
        if self.positions not in ("learned", "sinusoidal"):
            raise ValueError(f"positions is {self.positions!r}; choose learned or sinusoidal.")
        tensor = mesh.shape[_TENSOR]
        heads = self.width // self.head_dim
        for name, size in [
            ("heads", heads),
            ("width", self.width),
            ("hidden", self.hidden),
            ("sequence", self.sequence),
        ]:
            if size % tensor:
                raise ValueError(
                    f'{name} {size} does not divide over the {tensor} devices of mesh axis "tensor"; '
                    f"choose a multiple of {tensor} or another mesh."
                )


class TutorialTransformer(nn.Module):
    """Tokens [batch, sequence] -> f32 logits of the next token [batch, sequence, vocab], sharded by sequence."""

    config: TutorialConfig
    mesh: Mesh

    @nn.compact
    def __call__(self, tokens: jax.Array, train: bool) -> jax.Array:
        config = self.config
        config.check(self.mesh)
        spread = ("data", _TENSOR)
        embedding = _param(self, "embedding", nn.initializers.normal(1.0), (config.vocab, config.width), spread)
        if config.positions == "sinusoidal":
            positions = sinusoidal(config.sequence, config.width)
        else:
            positions = _param(self, "positions", nn.initializers.normal(0.02), (config.sequence, config.width), spread)
        x = embedding.astype(config.dtype)[tokens] + positions.astype(config.dtype)[: tokens.shape[1]]
        x = _constrain(x, self.mesh, _ACTIVATIONS)

        block_class = ParallelBlock if config.parallel_block else SequentialBlock
        layers = nn.scan(
            nn.remat(block_class, prevent_cse=False, static_argnums=(2,)),
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            length=config.layers,
            in_axes=(nn.broadcast,),
            metadata_params={nn.PARTITION_NAME: None},
        )
        x, _ = layers(config, self.mesh, name="layers")(x, train)

        # From here on a rank holds all features of its slice of the sequence.
        x = _constrain(x, self.mesh, _SEQUENCE_SLICES)
        norm = _param(self, "norm", nn.initializers.ones, (config.width,), (None,))
        head = _param(self, "head", _matrix, (config.width, config.vocab), (_TENSOR, "data"))
        bias = _param(self, "head_bias", nn.initializers.zeros, (config.vocab,), (None,))
        x = _rms_norm(x, norm.astype(config.dtype))
        return _constrain(x.astype(jnp.float32) @ head + bias, self.mesh, _SEQUENCE_SLICES)


def sinusoidal(sequence: int, width: int) -> jax.Array:
    """Fixed positions [sequence, width], f32: sines and cosines in turn, wavelengths from 2 pi to 10,000 x 2 pi."""
    angles = jnp.arange(sequence)[:, None] * jnp.exp(jnp.arange(0, width, 2) * (-math.log(10000.0) / width))
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(sequence, width)


class _Block(nn.Module):
    config: TutorialConfig
    mesh: Mesh

    def spread(self, layer: Callable[[jax.Array, dict[str, jax.Array]], jax.Array], x: jax.Array, params: Any) -> Any:
        """Runs `layer` on each rank's shards of `x` and of its parameters, which are gathered over "data"."""
        values = {name: value.astype(self.config.dtype) for name, (value, _) in params.items()}
        specs = {name: _within_tensor(axes) for name, (_, axes) in params.items()}
        sharded = jax.shard_map(layer, mesh=self.mesh, in_specs=(_ACTIVATIONS, specs), out_specs=_ACTIVATIONS)
        return sharded(x, values)

    def attention_params(self) -> dict[str, Any]:
        width, parts = self.config.width, self.mesh.shape[_TENSOR]
        columns, rows, ones = ("data", _TENSOR), (_TENSOR, "data"), nn.initializers.ones
        scales = (parts, parts, self.config.head_dim)  # [rank of the heads, rank of the features, head_dim]
        return {
            "query": self.described("query", _matrix, (width, width), columns),
            "key": self.described("key", _matrix, (width, width), columns),
            "value": self.described("value", _matrix, (width, width), columns),
            "query_scale": self.described("query_scale", ones, scales, (_TENSOR, None, None)),
            "key_scale": self.described("key_scale", ones, scales, (_TENSOR, None, None)),
            "output": self.described("output", _matrix, (width, width), rows),
            "output_bias": self.described("output_bias", nn.initializers.zeros, (width,), (_TENSOR,)),
        }

    def mlp_params(self) -> dict[str, Any]:
        width, hidden, zeros = self.config.width, self.config.hidden, nn.initializers.zeros
        return {
            "up": self.described("up", _matrix, (width, hidden), ("data", _TENSOR)),
            "up_bias": self.described("up_bias", zeros, (hidden,), (_TENSOR,)),
            "down": self.described("down", _matrix, (hidden, width), (_TENSOR, "data")),
            "down_bias": self.described("down_bias", zeros, (width,), (_TENSOR,)),
        }

    def norm_param(self, name: str) -> Any:
        return self.described(name, nn.initializers.ones, (self.config.width,), (_TENSOR,))

    def described(self, name: str, init: Any, shape: tuple[int, ...], axes: tuple[str | None, ...]) -> Any:
        return _param(self, name, init, shape, axes), axes

    def dropout(self, x: jax.Array, train: bool) -> jax.Array:
        dropped: jax.Array = nn.Dropout(self.config.dropout, deterministic=not train)(x)
        return dropped


class ParallelBlock(_Block):
    """Attention and MLP of the same normalised input: one gather, one scatter."""

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> tuple[jax.Array, None]:
        def layer(x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
            x = _rms_norm(x, p["norm"], _TENSOR)
            kernels = (p["up"], p["query"], p["key"], p["value"])
            up, q, k, v = _projections(x, kernels, (None, p["query_scale"], p["key_scale"], None))
            mixed = _attention(q, k, v, self.config.head_dim)
            both = (nn.silu(up + p["up_bias"]), mixed)
            out = matmul_scatter(both, (p["down"], p["output"]), axis_name=_TENSOR, split="features")
            return out + p["down_bias"] + p["output_bias"]

        params = {"norm": self.norm_param("norm"), **self.attention_params(), **self.mlp_params()}
        return x + self.dropout(self.spread(layer, x, params), train), None


class SequentialBlock(_Block):
    """Attention, then MLP, each with its own gather and scatter."""

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> tuple[jax.Array, None]:
        def attention(x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
            x = _rms_norm(x, p["norm"], _TENSOR)
            kernels = (p["query"], p["key"], p["value"])
            q, k, v = _projections(x, kernels, (p["query_scale"], p["key_scale"], None))
            mixed = _attention(q, k, v, self.config.head_dim)
            return matmul_scatter((mixed,), (p["output"],), axis_name=_TENSOR, split="features") + p["output_bias"]

        def mlp(x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
            (up,) = _projections(_rms_norm(x, p["norm"], _TENSOR), (p["up"],), (None,))
            up = nn.silu(up + p["up_bias"])
            return matmul_scatter((up,), (p["down"],), axis_name=_TENSOR, split="features") + p["down_bias"]

        params = {"norm": self.norm_param("attention_norm"), **self.attention_params()}
        x = x + self.dropout(self.spread(attention, x, params), train)
        params = {"norm": self.norm_param("mlp_norm"), **self.mlp_params()}
        return x + self.dropout(self.spread(mlp, x, params), train), None


def _projections(x: jax.Array, kernels: Sequence[jax.Array], scales: Sequence[jax.Array | None]) -> list[jax.Array]:
    """Products of the gathered features with this rank's columns; one with a scale is normalised part by part."""
    totals: list[jax.Array | None] = [None] * len(kernels)
    features = x.shape[-1]
    for owner, shard in arrivals(x, _TENSOR):
        for i, (kernel, scale) in enumerate(zip(kernels, scales, strict=True)):
            part = shard @ lax.dynamic_slice_in_dim(kernel, owner * features, features)
            if scale is not None:
                heads = part.reshape(*part.shape[:-1], -1, scale.shape[-1])
                part = _rms_norm(heads, scale[0, owner]).reshape(part.shape)
            total = totals[i]
            totals[i] = part if total is None else total + part
    return [total for total in totals if total is not None]


def _attention(q: jax.Array, k: jax.Array, v: jax.Array, head_dim: int) -> jax.Array:
    """Causal attention of this rank's heads; all arrays [batch, sequence, heads * head_dim]."""
    heads = (x.reshape(*x.shape[:-1], -1, head_dim) for x in (q, k, v))
    return jax.nn.dot_product_attention(*heads, is_causal=True).reshape(q.shape)


def _rms_norm(x: jax.Array, scale: jax.Array, axis_name: str | None = None) -> jax.Array:
    """RMSNorm in f32 over the last axis and, if `axis_name` is given, over the shards of that mesh axis."""
    wide = x.astype(jnp.float32)
    square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    if axis_name is not None:
        square = lax.pmean(square, axis_name)  # type: ignore[no-untyped-call]
    return (wide * lax.rsqrt(square + _EPSILON) * scale.astype(jnp.float32)).astype(x.dtype)


def _param(module: nn.Module, name: str, init: Any, shape: tuple[int, ...], axes: tuple[str | None, ...]) -> jax.Array:
    """An f32 parameter whose axes are sharded over the named mesh axes."""
    value: Any = module.param(name, nn.with_partitioning(init, axes), shape, jnp.float32)
    return value  # type: ignore[no-any-return]  # flax removes the box


def _within_tensor(axes: tuple[str | None, ...]) -> P:
    """How a layer reads a parameter: sharded over "tensor" only."""
    return P(*(_TENSOR if axis == _TENSOR else None for axis in axes))  # type: ignore[no-untyped-call]


def _constrain(x: jax.Array, mesh: Mesh, spec: P) -> jax.Array:
    spread: jax.Array = lax.with_sharding_constraint(x, NamedSharding(mesh, spec))  # type: ignore[no-untyped-call]
    return spread
