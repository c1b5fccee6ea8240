"""Tensor-parallel matmuls whose transfers overlap with the partial products.

Processors are idle during a gather before a matmul and during a reduce-scatter after it. Split into the hops of a ring,
every transfer has a partial product that does not need it (Wang et al.: "Overlap Communication with Dependent
Computation via Decomposition in Large Deep Learning Models", ASPLOS 2023):

    gather_matmul     sends the inputs' shards, and multiplies each shard while the next one is in transit
    matmul_scatter    sends partial sums, and computes the product for the next rank while its sum is in transit

Each is the transpose of the other, so the backward pass has as many hops as the forward pass and overlaps in the same
way. Between such a pair of layers the activations are split over the ranks by

    "features"   [..., features / ranks], as in the tutorial "Transformers with Tensor Parallelism" of the University of
                 Amsterdam: norms need a sum over the ranks, everything else is local
    "sequence"   [..., sequence / ranks, features], as in Megatron's sequence parallelism (Korthikanti et al.:
                 arXiv:2205.05198): norms and residuals are local

Call all functions inside `jax.shard_map`. Products are accumulated in f32 or a wider type; a travelling sum is rounded
to the inputs' type at each hop, as in a reduce-scatter of that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import lax

Split = Literal["features", "sequence"]

_SEQUENCE_AXIS = -2
_FEATURE_AXIS = -1


def gather_matmul(
    x: jax.Array,
    kernels: Sequence[jax.Array],
    *,
    axis_name: str,
    split: Split,
    bidirectional: bool = False,
) -> tuple[jax.Array, ...]:
    """Products of the whole input, which is sharded over `axis_name`, with this rank's kernels.

    The shards travel once for all kernels. The backward keeps the gathered input for the kernels' gradients, so the
    shards need not travel again; rematerialisation drops it.

    Args:
      x: this rank's shard: [..., features / ranks] if `split` is "features", else [..., sequence / ranks, features].
      kernels: each [features, out], this rank's columns, in the type of `x`.
      axis_name: mesh axis of the ring.
      split: the axis of the input that is split over the ranks.
      bidirectional: shards travel in both directions, which halves the distance and uses both directions of the links.

    Returns:
      For each kernel [..., sequence, out], in the type of `x`.

    Raises:
      ValueError: sizes or types do not match.
    """
    ranks = lax.axis_size(axis_name)
    features = x.shape[-1] * (ranks if split == "features" else 1)
    for kernel in kernels:
        _check(x, kernel, split)
        if kernel.shape[0] != features:
            raise ValueError(
                f'gather_matmul over axis "{axis_name}": a kernel of {kernel.shape[0]} rows cannot multiply '
                f"gathered inputs of {features} features."
            )
    x, *varying = _equally_varying(x, *kernels)
    return _gather_matmul(Ring(axis_name, split, bidirectional), x, tuple(varying))


def matmul_scatter(
    xs: Sequence[jax.Array],
    kernels: Sequence[jax.Array],
    *,
    axis_name: str,
    split: Split,
    bidirectional: bool = False,
) -> jax.Array:
    """This rank's shard of the sum of `x @ kernel` over all pairs and over all ranks of `axis_name`.

    Args:
      xs: each [..., sequence, in]: this rank's part of the features over which the ranks' products are summed.
      kernels: one for each of `xs`, [in, features], this rank's rows, in the type of `xs`.
      axis_name: mesh axis of the ring.
      split: the axis of the result that is split over the ranks.
      bidirectional: sums travel in both directions, which halves the distance and uses both directions of the links.

    Returns:
      [..., sequence, features / ranks] if `split` is "features", else [..., sequence / ranks, features], in the type of
      `xs`.

    Raises:
      ValueError: sizes or types do not match, or an axis does not divide by the ranks.
    """
    if len(xs) != len(kernels):
        raise ValueError(f"matmul_scatter: {len(xs)} inputs but {len(kernels)} kernels; each input has one.")
    for x, kernel in zip(xs, kernels, strict=True):
        _check(x, kernel, split)
        if kernel.shape[0] != x.shape[-1]:
            raise ValueError(
                f'matmul_scatter over axis "{axis_name}": a kernel of {kernel.shape[0]} rows cannot multiply inputs of '
                f"{x.shape[-1]} features."
            )
        if (x.shape[:-1], kernel.shape[1]) != (xs[0].shape[:-1], kernels[0].shape[1]):
            raise ValueError(
                f"matmul_scatter: products of {(*x.shape[:-1], kernel.shape[1])} and of "
                f"{(*xs[0].shape[:-1], kernels[0].shape[1])} cannot be summed."
            )
    ranks = lax.axis_size(axis_name)
    size = kernels[0].shape[1] if split == "features" else xs[0].shape[_SEQUENCE_AXIS]
    if size % ranks:
        kind = "output features" if split == "features" else "positions of the sequence"
        raise ValueError(
            f'matmul_scatter: {size} {kind} do not divide into the {ranks} ranks of axis "{axis_name}"; choose a '
            f"multiple of {ranks}."
        )
    varying = _equally_varying(*xs, *kernels)
    ring = Ring(axis_name, split, bidirectional)
    return _matmul_scatter(ring, tuple(varying[: len(xs)]), tuple(varying[len(xs) :]))


def arrivals(x: jax.Array, axis_name: str, bidirectional: bool = False) -> Iterator[tuple[jax.Array, jax.Array]]:
    """The shards of all ranks of `axis_name` in the order of their arrival: first this rank's own.

    The transfers of the next hop start before a shard is yielded, so they overlap with the computation on it. Under
    differentiation the gradients travel back the same way and are summed on it.

    Args:
      x: this rank's shard.
      axis_name: mesh axis of the ring.
      bidirectional: shards travel in both directions.

    Yields:
      (owner, shard): the rank along the axis that owns the shard, and the shard.
    """
    ranks, rank = lax.axis_size(axis_name), lax.axis_index(axis_name)
    up_hops, down_hops = _hops(ranks, bidirectional)
    up = down = x
    arrived = [(rank, x)]
    for hop in range(1, up_hops + 2):
        following = []
        if hop <= up_hops:
            up = _shift(up, axis_name, +1)
            following.append(((rank - hop) % ranks, up))
        if hop <= down_hops:
            down = _shift(down, axis_name, -1)
            following.append(((rank + hop) % ranks, down))
        yield from arrived
        arrived = following


class Ring(NamedTuple):
    """A ring of ranks, and what is split over them."""

    axis_name: str
    split: Split
    bidirectional: bool


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gather_matmul(ring: Ring, x: jax.Array, kernels: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return gathered_products(ring, x, kernels, contracted=0)[0]


def _gather_matmul_forward(
    ring: Ring, x: jax.Array, kernels: tuple[jax.Array, ...]
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, tuple[jax.Array, ...]]]:
    products, whole = gathered_products(ring, x, kernels, contracted=0)
    return products, (whole, kernels)


def _gather_matmul_backward(
    ring: Ring, kept: tuple[jax.Array, tuple[jax.Array, ...]], gradients: tuple[jax.Array, ...]
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    whole, kernels = kept
    to_kernels = tuple(kernel_gradient(whole, gradient).astype(whole.dtype) for gradient in gradients)
    return scattered_products(ring, gradients, kernels, contracted=1), to_kernels


_gather_matmul.defvjp(_gather_matmul_forward, _gather_matmul_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _matmul_scatter(ring: Ring, xs: tuple[jax.Array, ...], kernels: tuple[jax.Array, ...]) -> jax.Array:
    return scattered_products(ring, xs, kernels, contracted=0)


def _matmul_scatter_forward(
    ring: Ring, xs: tuple[jax.Array, ...], kernels: tuple[jax.Array, ...]
) -> tuple[jax.Array, tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]]:
    return _matmul_scatter(ring, xs, kernels), (xs, kernels)


def _matmul_scatter_backward(
    ring: Ring, kept: tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]], gradient: jax.Array
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    xs, kernels = kept
    to_xs, whole = gathered_products(ring, gradient, kernels, contracted=1)
    return to_xs, tuple(kernel_gradient(x, whole).astype(x.dtype) for x in xs)


_matmul_scatter.defvjp(_matmul_scatter_forward, _matmul_scatter_backward)


def gathered_products(
    ring: Ring, x: jax.Array, kernels: Sequence[jax.Array], contracted: int, dtype: Any = None
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Products of the gathered input with axis `contracted` of each kernel, in `dtype` or that of x, and that input.

    Without derivatives; arguments as for `gather_matmul`.
    """
    dtype = dtype or x.dtype
    ranks = lax.axis_size(ring.axis_name)
    axis = _FEATURE_AXIS if ring.split == "features" else _SEQUENCE_AXIS
    whole: jax.Array | None = None
    products: list[jax.Array | None] = [None] * len(kernels)
    for owner, shard in arrivals(x, ring.axis_name, ring.bidirectional):
        whole = _place(whole, shard, owner, ranks, axis)
        for i, kernel in enumerate(kernels):
            if ring.split == "features":
                products[i] = _plus(_product(shard, _part(kernel, owner, ranks, contracted), contracted), products[i])
            else:
                product = _product(shard, kernel, contracted).astype(dtype)
                products[i] = _place(products[i], product, owner, ranks, axis)
    assert whole is not None
    return tuple(product.astype(dtype) for product in products if product is not None), whole


def scattered_products(
    ring: Ring,
    xs: Sequence[jax.Array],
    kernels: Sequence[jax.Array],
    contracted: int,
    dtype: Any = None,
    factors: Sequence[jax.Array] | None = None,
) -> jax.Array:
    """This rank's shard of the sum of the products of each input with axis `contracted` of its kernel.

    Without derivatives; arguments as for `matmul_scatter`. The sum travels in `dtype`, by default that of the inputs;
    each product is first multiplied by its factor, if there are factors.
    """
    ranks = lax.axis_size(ring.axis_name)

    def products_for(owner: jax.Array) -> jax.Array:
        total: jax.Array | None = None
        for i, (x, kernel) in enumerate(zip(xs, kernels, strict=True)):
            if ring.split == "features":
                kernel = _part(kernel, owner, ranks, 1 - contracted)
            else:
                x = _part(x, owner, ranks, _SEQUENCE_AXIS)
            product = _product(x, kernel, contracted)
            total = _plus(product if factors is None else product * factors[i], total)
        assert total is not None
        return total

    return _travelling_sum(products_for, dtype or xs[0].dtype, ring)


def _travelling_sum(products_for: Callable[[jax.Array], jax.Array], dtype: jnp.dtype, ring: Ring) -> jax.Array:
    """The sum over all ranks of their `products_for(this rank)`, in `dtype`.

    The sum for a rank starts at the far end of the ring, and every rank on its way adds a product. A rank computes its
    product while the sum is in transit.
    """
    ranks, rank = lax.axis_size(ring.axis_name), lax.axis_index(ring.axis_name)
    up_hops, down_hops = _hops(ranks, ring.bidirectional)
    up: jax.Array | None = None
    down: jax.Array | None = None
    for left in range(up_hops, 0, -1):
        up = _shift(_plus(products_for((rank + left) % ranks), up).astype(dtype), ring.axis_name, +1)
        if left <= down_hops:
            down = _shift(_plus(products_for((rank - left) % ranks), down).astype(dtype), ring.axis_name, -1)
    return _plus(_plus(products_for(rank), up), down).astype(dtype)


def _hops(ranks: int, bidirectional: bool) -> tuple[int, int]:
    """Hops up and down the ring, ranks - 1 in total."""
    return (ranks // 2, (ranks - 1) // 2) if bidirectional else (ranks - 1, 0)


def _shift(x: jax.Array, axis_name: str, by: int) -> jax.Array:
    ranks = lax.axis_size(axis_name)
    received: jax.Array = lax.ppermute(  # type: ignore[no-untyped-call]
        x, axis_name, [(source, (source + by) % ranks) for source in range(ranks)]
    )
    return received


def _product(x: jax.Array, kernel: jax.Array, contracted: int) -> jax.Array:
    dimensions = (((x.ndim - 1,), (contracted,)), ((), ()))
    return lax.dot_general(x, kernel, dimensions, preferred_element_type=_wide(x.dtype))


def kernel_gradient(x: jax.Array, gradient: jax.Array) -> jax.Array:
    """[in, out] of x [..., in] and the gradient [..., out] of its product, f32 or wider."""
    leading = tuple(range(x.ndim - 1))
    return lax.dot_general(x, gradient, ((leading, leading), ((), ())), preferred_element_type=_wide(x.dtype))


def _wide(dtype: Any) -> Any:
    """The type in which products are accumulated."""
    return jnp.float32 if jnp.dtype(dtype).itemsize == 1 else jnp.promote_types(dtype, jnp.float32)


def _part(x: jax.Array, owner: jax.Array, ranks: int, axis: int) -> jax.Array:
    size = x.shape[axis] // ranks
    return lax.dynamic_slice_in_dim(x, owner * size, size, axis)


def _place(whole: jax.Array | None, part: jax.Array, owner: jax.Array, ranks: int, axis: int) -> jax.Array:
    """`whole` with `part` as its part `owner`; a missing `whole` is zeros."""
    size = part.shape[axis]
    if whole is None:
        shape = list(part.shape)
        shape[axis] *= ranks
        whole = jnp.zeros(shape, part.dtype)
    return lax.dynamic_update_slice_in_dim(whole, part, owner * size, axis)


def _plus(x: jax.Array, y: jax.Array | None) -> jax.Array:
    return x if y is None else x + y


def _equally_varying(*arrays: jax.Array) -> list[jax.Array]:
    """The arrays, all typed as varying over every mesh axis that one of them varies over.

    The transpose sums the gradients of a kernel that is the same on all data-parallel ranks.
    """
    axes = frozenset[str]().union(*(jax.typeof(x).mat.varying for x in arrays))
    return [lax.pcast(x, tuple(axes - jax.typeof(x).mat.varying), to="varying") for x in arrays]


def _check(x: jax.Array, kernel: jax.Array, split: Split) -> None:
    if x.dtype != kernel.dtype:
        raise ValueError(f"inputs of type {x.dtype} but a kernel of type {kernel.dtype}; cast one of them.")
    if kernel.ndim != 2:
        raise ValueError(f"a kernel of shape {kernel.shape}; it must be a matrix [in, out].")
    if split not in get_args(Split):
        raise ValueError(f'split is "{split}"; it must be one of {", ".join(get_args(Split))}.')
    if split == "sequence" and x.ndim < 2:
        raise ValueError(f"inputs of shape {x.shape} have no sequence to split; it is the last axis but one.")
