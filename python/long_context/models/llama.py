"""Llama decoder in flax: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, one scan over the layers.

Parameters are f32 and carry the names of their logical axes; the type of the computation can be chosen. `Operations`
contains everything that depends on the mesh, so the same model runs on one device or on many.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.fp8_ops import OVERWRITE_WITH_GRADIENT
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from long_context.models.experts import Experts, apply_experts, balance_loss
from long_context.models.llama_config import LlamaConfig
from long_context.models.rope import Rotation, rotate, rotation

# (q [batch, tokens, heads, head_dim], k and v [batch, tokens, kv_heads, head_dim]) -> like q
Attention = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

#: Collection of FP8 scales and amax histories. Their "gradients" are their new values.
FP8 = OVERWRITE_WITH_GRADIENT


#: Collection of the router's losses, one for each layer, if the model is a mixture of experts.
ROUTER_LOSS = "router_loss"


class DotGeneral(Protocol):
    """`lax.dot_general`, or a function that quantises first."""

    def __call__(self, lhs: jax.Array, rhs: jax.Array, dimension_numbers: Any, /) -> jax.Array: ...


class Weight(NamedTuple):
    """A matrix [inputs, outputs] in the type of the computation, and the function that multiplies with it."""

    kernel: jax.Array
    dot_general: DotGeneral

    def applied_to(self, x: jax.Array) -> jax.Array:
        """`x @ kernel`, x [.., inputs]."""
        return self.dot_general(x, self.kernel, (((x.ndim - 1,), (0,)), ((), ())))


def causal_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention over a whole sequence on one device; shapes as for `Attention`."""
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def _multiply(x: jax.Array, weights: tuple[Weight, ...]) -> tuple[jax.Array, ...]:
    return tuple(weight.applied_to(x) for weight in weights)


def _multiply_and_add(xs: tuple[jax.Array, ...], weights: tuple[Weight, ...]) -> jax.Array:
    products = (weight.applied_to(x) for x, weight in zip(xs, weights, strict=True))
    return functools.reduce(operator.add, products)


@dataclasses.dataclass(frozen=True)
class Operations:
    """The operations that depend on the mesh; the defaults run on one device.

    Attributes:
      attention: causal attention over all tokens of the sequence, on whichever rank they are.
      dense_in: products of the residual stream x [batch, tokens, width] with weights [width, features]. Features are
        split over tensor-parallel ranks; one call takes several weights, so that x is gathered once.
      dense_out: sum of the products of split features with weights [features, width], shaped like the residual stream.
      head: scores [batch, tokens, vocab] of the residual stream and a weight [width, vocab].
      constrain: sets the sharding of an activation by the names of its logical axes.
      embedding: sets the sharding in which the table [vocab, width] is read.
      router: sets the sharding in which the router [width, experts] is read.
      experts: the mixture's output, like x: (x [batch, tokens, width], router scores [batch, tokens, experts], weights,
        experts of a token).
    """

    attention: Attention = causal_attention
    dense_in: Callable[[jax.Array, tuple[Weight, ...]], tuple[jax.Array, ...]] = _multiply
    dense_out: Callable[[tuple[jax.Array, ...], tuple[Weight, ...]], jax.Array] = _multiply_and_add
    head: Callable[[jax.Array, Weight], jax.Array] = lambda x, weight: weight.applied_to(x)
    constrain: Callable[[jax.Array, tuple[str | None, ...]], jax.Array] = lambda x, names: x
    embedding: Callable[[jax.Array], jax.Array] = lambda table: table
    router: Callable[[jax.Array], jax.Array] = lambda router: router
    experts: Callable[[jax.Array, jax.Array, Experts, int], jax.Array] = apply_experts


#: Name of a layer's input, the only activation that `offload` keeps.
_LAYER_INPUT = "layer input"

#: Activations of a layer that the backward pass keeps; `none`: all, without recomputation; `offload`: as `full`, in the
#: host's memory.
REMAT_POLICIES: dict[str, Any] = {
    "none": None,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "attention": jax.checkpoint_policies.save_only_these_names("attention"),
    "full": jax.checkpoint_policies.nothing_saveable,
    "offload": jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=[_LAYER_INPUT],
        offload_src="device",
        offload_dst="pinned_host",
    ),
}


class RMSNorm(nn.Module):
    """`x / rms(x) * scale` over the last axis, in f32 (Zhang, Sennrich: arXiv:1910.07467).

    `flax.linen.RMSNorm` multiplies the scale with the inverse root first. That rounds differently and changes losses,
    in bf16 by 1e-4 of their value.
    """

    eps: float
    axis: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        ones = nn.with_logical_partitioning(nn.initializers.ones, (self.axis,))
        scale: Any = self.param("scale", ones, x.shape[-1:], jnp.float32)
        wide = x.astype(jnp.float32)
        normed = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + self.eps)
        return jnp.asarray(normed * scale, x.dtype)


class Layer(nn.Module):
    """One decoder layer; `nn.scan` runs all layers."""

    config: LlamaConfig
    operations: Operations
    dtype: Any
    fp8: bool

    @nn.compact
    def __call__(self, x: jax.Array, angles: Rotation) -> tuple[jax.Array, None]:
        dense_in, dense_out = self.operations.dense_in, self.operations.dense_out
        x = checkpoint_name(x, _LAYER_INPUT)  # type: ignore[no-untyped-call]
        h = self._norm("attention_norm", x)
        qkv, output = self._attention_weights()
        if self.config.parallel_block:
            gate_up, down = self._mlp_weights()
            q, k, v, gate, up = dense_in(h, (*qkv, *gate_up))
            mixed = self._attention(q, k, v, angles)
            x = x + dense_out((mixed, jax.nn.silu(gate) * up), (output, down))
        else:
            q, k, v = dense_in(h, qkv)
            x = x + dense_out((self._attention(q, k, v, angles),), (output,))
            h = self._norm("mlp_norm", x)
            if self.config.experts:
                x = x + self._mixture(h)
            else:
                gate_up, down = self._mlp_weights()
                gate, up = dense_in(h, gate_up)
                x = x + dense_out((jax.nn.silu(gate) * up,), (down,))
        return self.operations.constrain(x, ("batch", "residual_length", "width")), None

    def _norm(self, name: str, x: jax.Array, axis: str = "embed") -> jax.Array:
        return RMSNorm(self.config.norm_eps, axis, name=name)(x)

    def _attention(self, q: jax.Array, k: jax.Array, v: jax.Array, angles: Rotation) -> jax.Array:
        c = self.config
        q, k, v = (x.reshape(*x.shape[:2], -1, c.head_dim) for x in (q, k, v))
        if c.qk_norm:
            q, k = self._norm("query_norm", q, "head_dim"), self._norm("key_norm", k, "head_dim")
        mixed = self.operations.attention(rotate(q, angles), rotate(k, angles), v)
        return mixed.reshape(*mixed.shape[:2], -1)

    def _mixture(self, h: jax.Array) -> jax.Array:
        c = self.config
        router = self._parameter("router", ("embed", None), (c.width, c.experts))
        # Few numbers decide much, so they are f32.
        scores = h.astype(jnp.float32) @ self.operations.router(router)
        self.sow(ROUTER_LOSS, "value", balance_loss(scores, c.experts_per_token), reduce_fn=lambda _, new: new)
        into, out = ("experts", "expert_embed", "mlp"), ("experts", "mlp", "expert_embed")
        gate, up = (self._parameter(f"expert_{name}", into, (c.experts, c.width, c.hidden)) for name in ("gate", "up"))
        down = self._parameter("expert_down", out, (c.experts, c.hidden, c.width))
        weights = Experts(*(weight.astype(self.dtype) for weight in (gate, up, down)))
        return self.operations.experts(h, scores, weights, c.experts_per_token)

    def _attention_weights(self) -> tuple[tuple[Weight, ...], Weight]:
        """The weights (query, key, value), and output."""
        c = self.config
        qkv = (
            self._weight("query", ("embed", "heads"), c.width, c.width),
            self._weight("key", ("embed", "kv_heads"), c.width, c.kv_width),
            self._weight("value", ("embed", "kv_heads"), c.width, c.kv_width),
        )
        return qkv, self._weight("output", ("heads", "embed"), c.width, c.width)

    def _mlp_weights(self) -> tuple[tuple[Weight, ...], Weight]:
        """The weights (gate, up), and down."""
        c = self.config
        gate_up = tuple(self._weight(name, ("embed", "mlp"), c.width, c.hidden) for name in ("gate", "up"))
        return gate_up, self._weight("down", ("mlp", "embed"), c.hidden, c.width)

    def _weight(self, name: str, axes: tuple[str, str], rows: int, columns: int) -> Weight:
        dot = nn.Fp8DirectDotGeneralOp(name=f"{name}_fp8") if self.fp8 else lax.dot_general
        return Weight(self._parameter(name, axes, (rows, columns)).astype(self.dtype), dot)

    def _parameter(self, name: str, axes: tuple[str | None, ...], shape: tuple[int, ...]) -> jax.Array:
        # Standard deviation 1/sqrt(fan-in), divided by sqrt(2 * layers) for outputs to the residual stream (GPT-2).
        to_residual = str(axes[-1]).endswith("embed")
        scale = 1 / math.sqrt(shape[-2]) / (math.sqrt(2 * self.config.layers) if to_residual else 1)
        init = nn.with_logical_partitioning(nn.initializers.normal(scale), axes)
        value: Any = self.param(name, init, shape, jnp.float32)
        return jnp.asarray(value)


class Llama(nn.Module):
    """The decoder: `apply(variables, tokens, positions)` -> scores of the next token.

    Attributes:
      config: sizes.
      operations: the operations that depend on the mesh.
      dtype: type of the computation.
      remat: key of `REMAT_POLICIES`.
      fp8: the layers' projections multiply in FP8 with delayed scaling, E4M3 forward and E5M2 backward.
    """

    config: LlamaConfig
    operations: Operations = Operations()
    dtype: Any = jnp.float32
    remat: str = "none"
    fp8: bool = False

    @nn.compact
    def __call__(self, tokens: jax.Array, positions: jax.Array) -> jax.Array:
        """Scores [batch, tokens, vocab] in `dtype`.

        Args:
          tokens: [batch, tokens] int.
          positions: [tokens] position of each token in the whole sequence.
        """
        c, operations = self.config, self.operations
        table = operations.embedding(self._matrix("embedding", ("vocab", "embed"), c.vocab, c.width))
        x = operations.constrain(table[tokens], ("batch", "residual_length", "width"))
        angles = Rotation(*(operations.constrain(a, ("length", None, None)) for a in rotation(positions, c)))
        layers = nn.scan(
            self._rematerialised(),
            variable_axes={"params": 0, FP8: 0, ROUTER_LOSS: 0},
            split_rngs={"params": True},
            in_axes=nn.broadcast,
            length=c.layers,
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        x, _ = layers(c, operations, self.dtype, self.fp8, name="layers")(x, angles)
        x = RMSNorm(c.norm_eps, "embed", name="norm")(x)
        head = table.T if c.tied_head else self._matrix("head", ("embed", "vocab"), c.width, c.vocab)
        return operations.head(x, Weight(head, lax.dot_general))

    def _matrix(self, name: str, axes: tuple[str, str], rows: int, columns: int) -> jax.Array:
        # The rows of an embedding that is no output matrix have features of standard deviation 1.
        scale = 1.0 if name == "embedding" and not self.config.tied_head else 1 / math.sqrt(self.config.width)
        init = nn.with_logical_partitioning(nn.initializers.normal(scale), axes)
        matrix: Any = self.param(name, init, (rows, columns), jnp.float32)
        return jnp.asarray(matrix, self.dtype)

    def _rematerialised(self) -> Any:
        if self.remat == "none":
            return Layer
        # Forward and backward are separate loops, so the compiler cannot merge the recomputation with the forward.
        return nn.remat(Layer, policy=REMAT_POLICIES[self.remat], prevent_cse=False)


def next_token_loss(scores: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean cross entropy of `targets` [batch, tokens] under `scores` [batch, tokens, vocab], in nats per token."""
    wide = scores.astype(jnp.float32)
    # A comparison, not a gather: it stays where the scores are when the vocabulary is split.
    chosen = lax.broadcasted_iota(targets.dtype, wide.shape, 2) == targets[..., None]
    return jnp.mean(jax.nn.logsumexp(wide, axis=-1) - jnp.sum(jnp.where(chosen, wide, 0), axis=-1))
