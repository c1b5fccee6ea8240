"""Attention blocks by cuDNN's flash attention, on NVIDIA GPUs in 16-bit types.

`jax.nn.dot_product_attention(implementation="cudnn")` cannot serve a ring: it rounds the log-sum-exp to 16 bits, gives
no gradient through it, and its backward knows only its own block. So this binds the primitives under it. The backward
gets output and log-sum-exp over all keys, and returns the gradients through one block.
"""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp

from long_context.parallel.attention_blocks import Blocks, Partial, Queries


def attend(q: jax.Array, kv: jax.Array, *, causal: bool = False) -> Partial:
    """As `attention_blocks.attend`."""
    out, normaliser = forward(_heads(q), kv[0], kv[1], causal)
    return Partial(out.reshape(q.shape).astype(jnp.float32), normaliser.reshape(*q.shape[:-1], 1))


def attend_backward(queries: Queries, kv: jax.Array, *, causal: bool = False) -> tuple[jax.Array, jax.Array]:
    """As `attention_blocks.attend_backward`; the gradients have been rounded to the type of `q`."""
    q, out, gradient = (_heads(x) for x in (queries.q, queries.out, queries.gradient))
    normaliser = _heads(queries.normaliser)[..., 0]
    d_q, d_k, d_v = backward(q, kv[0], kv[1], normaliser, out, gradient, causal)
    return d_q.reshape(queries.q.shape).astype(jnp.float32), jnp.stack([d_k, d_v]).astype(jnp.float32)


CUDNN_BLOCKS = Blocks(attend, attend_backward)


def forward(q: jax.Array, k: jax.Array, v: jax.Array, causal: bool) -> tuple[jax.Array, jax.Array]:
    """cuDNN's forward: output like q [batch, heads, query, head_dim], and log-sum-exp f32 [batch, heads, query]."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    out, normaliser = cudnn._dot_product_attention_fwd_p.bind(
        q, k, v, *_absent(7, q), is_training=True, **_parameters(q, causal)
    )
    return out, normaliser


def backward(
    q: jax.Array, k: jax.Array, v: jax.Array, normaliser: jax.Array, out: jax.Array, gradient: jax.Array, causal: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """cuDNN's backward: gradients of q, k and v, from what `forward` returned and the gradient of its output."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    d_q, d_k, d_v = cudnn._dot_product_attention_bwd_p.bind(
        q, k, v, *_absent(7, q), normaliser, out, gradient, **_parameters(q, causal)
    )
    return d_q, d_k, d_v


def _parameters(q: jax.Array, causal: bool) -> dict[str, object]:
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    # Newer releases also take a function that changes scores, which is not used here.
    known = inspect.signature(cudnn._dot_product_attention_fwd_cuda_lowering).parameters
    unused = [name for name in ("score_mod_name", "score_mod_jaxpr") if name in known]
    return dict.fromkeys(unused) | {
        "scale": q.shape[-1] ** -0.5,
        "seed": 42,  # of dropout, which is off
        "dropout_rate": 0.0,
        "variadic_args": (False, False),  # no bias, no gradient of one
        "mask_type": cudnn.MaskType.CAUSAL if causal else cudnn.MaskType.NO_MASK,
        "layout": cudnn.AttentionLayout.BNTH.value,
        "sliding_window_length": None,
    }


def _absent(count: int, like: jax.Array) -> tuple[jax.Array, ...]:
    """Arguments that are not used, as JAX passes them: bias, lengths, offsets and page tables."""
    return (jnp.zeros(0, like.dtype),) * count


def _heads(x: jax.Array) -> jax.Array:
    """[batch, kv_heads, group, ..] -> [batch, heads, ..]."""
    return x.reshape(x.shape[0], -1, *x.shape[3:])
