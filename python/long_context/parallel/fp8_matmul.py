"""Overlapped tensor-parallel matmuls on FP8: E4M3 forward, E5M2 for gradients of outputs, delayed scaling.

Operands are quantised once, before they travel, so shards and gathered weights take one byte an element on the wire;
partial sums keep the type of the computation. Scales and histories are those of flax's `Fp8DirectDotGeneralOp`, and
so are their updates: the "gradient" of a scale or a history is its new value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.fp8_ops import quantize, update_fp8_meta
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from long_context.parallel import sharding
from long_context.parallel.tensor_matmul import Ring, gathered_products, kernel_gradient, scattered_products

_FORWARD, _BACKWARD = jnp.float8_e4m3fn, jnp.float8_e5m2

_RING = Ring("tensor", "sequence", bidirectional=False)


class Scales(NamedTuple):
    """Scale [1] and history of largest values [steps], f32, of a matmul's operands and its output's gradient."""

    input: tuple[jax.Array, jax.Array]
    kernel: tuple[jax.Array, jax.Array]
    gradient: tuple[jax.Array, jax.Array]


class Layout(NamedTuple):
    """How the arrays of a layer lie on a mesh.

    Attributes:
      mesh: mesh of the job.
      held: activations between layers [batch, tokens, width].
      features: activations in a layer, [batch, tokens, features].
      columns: kernels [width, features].
      rows: kernels [features, width].
    """

    mesh: Mesh
    held: P
    features: P
    columns: P
    rows: P


def scales_of(operation: nn.Fp8DirectDotGeneralOp) -> Scales:
    """The variables of a layer's matmul."""
    module: Any = operation
    kinds = ("input", "kernel", "output_grad")
    return Scales(
        *((getattr(module, f"{kind}_scale").value, getattr(module, f"{kind}_amax_history").value) for kind in kinds)
    )


class _Quantised(NamedTuple):
    """An array in FP8, the factor that it was divided by, and the new scale and history."""

    values: jax.Array
    scale: jax.Array  # [1]
    history: jax.Array

    @property
    def meta(self) -> tuple[jax.Array, jax.Array]:
        return self.scale, self.history


def _quantised(x: jax.Array, to: Any, meta: tuple[jax.Array, jax.Array]) -> _Quantised:
    scale, history = update_fp8_meta(x, to, *meta)  # type: ignore[no-untyped-call]
    return _Quantised(quantize(x, to, scale, x.dtype), scale, history)  # type: ignore[no-untyped-call]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def fp8_gather_matmul(
    layout: Layout, x: jax.Array, kernels: tuple[jax.Array, ...], scales: tuple[Scales, ...]
) -> tuple[jax.Array, ...]:
    """Products of the gathered x with each kernel, as `tensor_matmul.gather_matmul` inside a mesh.

    Args:
      layout: how arrays lie on the mesh.
      x: [batch, tokens, width], held in slices of the sequence.
      kernels: [width, features] each, sharded as parameters are.
      scales: one for each kernel. Their histories of the input are equal, because the input is.
    """
    return _gather_forward(layout, x, kernels, scales)[0]


def _gather_forward(
    layout: Layout, x: jax.Array, kernels: tuple[jax.Array, ...], scales: tuple[Scales, ...]
) -> tuple[tuple[jax.Array, ...], Any]:
    inputs = [_quantised(x, _FORWARD, each.input) for each in scales]
    weights = [_quantised(kernel, _FORWARD, each.kernel) for kernel, each in zip(kernels, scales, strict=True)]

    @_on(layout.mesh, (layout.held, layout.columns), (layout.features, _copies(layout)))
    def products(x: jax.Array, shards: list[jax.Array]) -> tuple[tuple[jax.Array, ...], jax.Array]:
        found, whole = gathered_products(_RING, x, [_whole(shard, 0) for shard in shards], 0, jnp.float32)
        return found, whole[None]

    found, whole = products(inputs[0].values, [each.values for each in weights])
    outputs = tuple(
        (product * (inputs[0].scale * weight.scale)).astype(x.dtype)
        for product, weight in zip(found, weights, strict=True)
    )
    return outputs, (whole, inputs, weights, [each.gradient for each in scales])


def _gather_backward(layout: Layout, kept: Any, gradients: tuple[jax.Array, ...]) -> tuple[Any, ...]:
    whole, inputs, weights, metas = kept
    dtype = gradients[0].dtype
    grads = [_quantised(gradient, _BACKWARD, meta) for gradient, meta in zip(gradients, metas, strict=True)]
    to_input = [weight.scale * grad.scale for weight, grad in zip(weights, grads, strict=True)]
    to_kernel = [inputs[0].scale * grad.scale for grad in grads]

    @_on(
        layout.mesh,
        (_copies(layout), layout.features, layout.columns, P(), P()),  # type: ignore[no-untyped-call]
        (layout.held, layout.columns),
    )
    def backward(whole: Any, grads: Any, shards: Any, to_input: Any, to_kernel: Any) -> tuple[Any, Any]:
        kernels = [_whole(shard, 0) for shard in shards]
        d_x = scattered_products(_RING, grads, kernels, 1, dtype, to_input)
        return d_x, [
            _scattered((kernel_gradient(whole[0], grad) * factor).astype(dtype), 0)
            for grad, factor in zip(grads, to_kernel, strict=True)
        ]

    values = [each.values for each in grads]
    d_x, d_kernels = backward(whole, values, [each.values for each in weights], to_input, to_kernel)
    return d_x, tuple(d_kernels), _new(inputs, weights, grads)


fp8_gather_matmul.defvjp(_gather_forward, _gather_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def fp8_matmul_scatter(
    layout: Layout, xs: tuple[jax.Array, ...], kernels: tuple[jax.Array, ...], scales: tuple[Scales, ...]
) -> jax.Array:
    """The scattered sum of the products of each x with its kernel, as `tensor_matmul.matmul_scatter` inside a mesh.

    Args:
      layout: how arrays lie on the mesh.
      xs: [batch, tokens, features] each.
      kernels: one for each x, [features, width], sharded as parameters are.
      scales: one for each x. Their histories of the gradient are equal, because it is that of the sum.
    """
    return _scatter_forward(layout, xs, kernels, scales)[0]


def _scatter_forward(
    layout: Layout, xs: tuple[jax.Array, ...], kernels: tuple[jax.Array, ...], scales: tuple[Scales, ...]
) -> tuple[jax.Array, Any]:
    dtype = xs[0].dtype
    inputs = [_quantised(x, _FORWARD, each.input) for x, each in zip(xs, scales, strict=True)]
    weights = [_quantised(kernel, _FORWARD, each.kernel) for kernel, each in zip(kernels, scales, strict=True)]
    factors = [x.scale * weight.scale for x, weight in zip(inputs, weights, strict=True)]

    @_on(layout.mesh, (layout.features, layout.rows, P()), layout.held)  # type: ignore[no-untyped-call]
    def product(xs: Any, shards: Any, factors: Any) -> jax.Array:
        return scattered_products(_RING, xs, [_whole(shard, 1) for shard in shards], 0, dtype, factors)

    total = product([each.values for each in inputs], [each.values for each in weights], factors)
    return total, (inputs, weights, [each.gradient for each in scales])


def _scatter_backward(layout: Layout, kept: Any, gradient: jax.Array) -> tuple[Any, ...]:
    inputs, weights, metas = kept
    dtype = gradient.dtype
    grads = [_quantised(gradient, _BACKWARD, meta) for meta in metas]
    to_input = [weight.scale * grads[0].scale for weight in weights]
    to_kernel = [x.scale * grads[0].scale for x in inputs]

    @_on(
        layout.mesh,
        (layout.held, layout.features, layout.rows, P(), P()),  # type: ignore[no-untyped-call]
        (layout.features, layout.rows),
    )
    def backward(grad: Any, xs: Any, shards: Any, to_input: Any, to_kernel: Any) -> tuple[Any, Any]:
        kernels = [_whole(shard, 1) for shard in shards]
        found, whole = gathered_products(_RING, grad, kernels, 1, jnp.float32)
        d_xs = [(product * factor).astype(dtype) for product, factor in zip(found, to_input, strict=True)]
        return d_xs, [
            _scattered((kernel_gradient(x, whole) * factor).astype(dtype), 1)
            for x, factor in zip(xs, to_kernel, strict=True)
        ]

    values = ([each.values for each in inputs], [each.values for each in weights])
    d_xs, d_kernels = backward(grads[0].values, *values, to_input, to_kernel)
    return tuple(d_xs), tuple(d_kernels), _new(inputs, weights, grads)


fp8_matmul_scatter.defvjp(_scatter_forward, _scatter_backward)


def _new(
    inputs: Sequence[_Quantised], weights: Sequence[_Quantised], grads: Sequence[_Quantised]
) -> tuple[Scales, ...]:
    """The new scales and histories."""
    return tuple(Scales(x.meta, weight.meta, grad.meta) for x, weight, grad in zip(inputs, weights, grads, strict=True))


def _copies(layout: Layout) -> P:
    """Of an array [ranks, ..] in which every rank along `tensor` has its own copy of the gathered activations."""
    return P("tensor", sharding.BATCH, sharding.CONTEXT)  # type: ignore[no-untyped-call]


def _on(mesh: Mesh, in_specs: Any, out_specs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    # Reductions are written out below, so their derivation from types is not needed.
    return functools.partial(jax.shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def _whole(shard: jax.Array, axis: int) -> jax.Array:
    gathered: jax.Array = lax.all_gather(shard, sharding.EMBED, axis=axis, tiled=True)
    return gathered


def _scattered(gradient: jax.Array, axis: int) -> jax.Array:
    """The gradient of a kernel, summed over all ranks that have other tokens, in the kernel's shards."""
    others = tuple(each for each in (*sharding.BATCH, *sharding.CONTEXT) if each not in sharding.EMBED)
    summed: jax.Array = lax.psum(gradient, others)  # type: ignore[no-untyped-call]
    scattered: jax.Array = lax.psum_scatter(  # type: ignore[no-untyped-call]
        summed, sharding.EMBED, scatter_dimension=axis, tiled=True
    )
    return scattered
