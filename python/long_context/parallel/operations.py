"""The decoder's operations on a mesh."""

from __future__ import annotations

import functools
import operator
from typing import Any

import flax.linen as nn
import jax
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from long_context.models.llama import Operations, Weight
from long_context.parallel import sharding
from long_context.parallel.attention_blocks import XLA_BLOCKS
from long_context.parallel.cudnn_attention import CUDNN_BLOCKS
from long_context.parallel.expert_exchange import distributed_experts
from long_context.parallel.fp8_matmul import Layout, Scales, fp8_gather_matmul, fp8_matmul_scatter, scales_of
from long_context.parallel.gathered_attention import gathered_attention
from long_context.parallel.ring_attention import ring_attention
from long_context.parallel.tensor_matmul import gather_matmul, matmul_scatter

#: Schemes of context parallelism.
ATTENTION = {"ring": ring_attention, "gather": gathered_attention}

#: Who computes attention to a block of keys.
BLOCKS = {"xla": XLA_BLOCKS, "cudnn": CUDNN_BLOCKS}


def make_operations(
    mesh: Mesh, attention: str = "ring", tensor_matmul: str = "sync", attention_blocks: str = "xla"
) -> Operations:
    """The operations for a mesh with sequences in zig-zag order along `context`.

    Args:
      mesh: mesh of the job.
      attention: `ring` sends blocks of keys and values round the ring, `gather` gathers all of them.
      tensor_matmul: with `sync` every tensor-parallel rank holds the whole residual stream, products are summed with
        an all-reduce, and scores are split by vocabulary. With `async` every rank holds a slice of the sequence,
        gathers and scatters it while it computes partial products, and computes the scores of its slice.
      attention_blocks: key of `BLOCKS`: who computes attention to a block of keys.
    """
    embed = sharding.EMBED
    overlapped = tensor_matmul == "async" and mesh.shape["tensor"] > 1
    dense = _asynchronous(mesh, embed) if overlapped else _synchronous(mesh, embed)
    whole = _at(mesh, "tensor", None)

    def embedding(table: jax.Array) -> jax.Array:
        # The second pin is for the transpose: each rank sums the rows of its own tokens before rows are split. Without
        # it the partitioner would gather all tokens on every rank.
        return sharding.pinned(sharding.gathered(table, whole, _at(mesh, "tensor", embed)), whole)

    scheme, blocks = ATTENTION[attention], BLOCKS[attention_blocks]
    heads = P(sharding.BATCH, sharding.CONTEXT, "tensor")  # type: ignore[no-untyped-call]

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(heads, heads, heads), out_specs=heads)
    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return scheme(q, k, v, sharding.CONTEXT, blocks=blocks)

    def router(weight: jax.Array) -> jax.Array:
        return sharding.gathered(weight, _at(mesh), _at(mesh, embed))

    experts = functools.partial(distributed_experts, mesh)
    return Operations(attention=attend, embedding=embedding, router=router, experts=experts, **dense)


def _synchronous(mesh: Mesh, embed: tuple[str, ...]) -> dict[str, Any]:
    """Matmuls whose collectives the partitioner inserts."""
    columns, rows = (
        (_at(mesh, None, "tensor"), _at(mesh, embed, "tensor")),
        (_at(mesh, "tensor", None), _at(mesh, "tensor", embed)),
    )

    def gathered(weight: Weight, places: tuple[NamedSharding, NamedSharding]) -> Weight:
        return weight._replace(kernel=sharding.gathered(weight.kernel, *places))

    def constrain(x: jax.Array, names: tuple[str | None, ...]) -> jax.Array:
        return sharding.pinned(x, sharding.activation(mesh, names))

    def dense_in(x: jax.Array, weights: tuple[Weight, ...]) -> tuple[jax.Array, ...]:
        return tuple(gathered(weight, columns).applied_to(x) for weight in weights)

    def dense_out(xs: tuple[jax.Array, ...], weights: tuple[Weight, ...]) -> jax.Array:
        products = (gathered(weight, rows).applied_to(x) for x, weight in zip(xs, weights, strict=True))
        return constrain(functools.reduce(operator.add, products), ("batch", "residual_length", "width"))

    def head(x: jax.Array, weight: Weight) -> jax.Array:
        return constrain(gathered(weight, columns).applied_to(x), ("batch", "residual_length", "vocab"))

    return {"dense_in": dense_in, "dense_out": dense_out, "head": head, "constrain": constrain}


def _asynchronous(mesh: Mesh, embed: tuple[str, ...]) -> dict[str, Any]:
    """Matmuls that overlap with their own transfers; between layers each rank holds a slice of the sequence."""
    held = sharding.activation(mesh, ("batch", "residual_length", "width"), sliced=True).spec
    features = P(sharding.BATCH, sharding.CONTEXT, "tensor")  # type: ignore[no-untyped-call]
    columns, rows = P(embed, "tensor"), P("tensor", embed)  # type: ignore[no-untyped-call]
    layout = Layout(mesh, held, features, columns, rows)

    def constrain(x: jax.Array, names: tuple[str | None, ...]) -> jax.Array:
        return sharding.pinned(x, sharding.activation(mesh, names, sliced=True))

    def dense_in(x: jax.Array, weights: tuple[Weight, ...]) -> tuple[jax.Array, ...]:
        if scales := _scales(weights):
            return fp8_gather_matmul(layout, x, _kernels(weights), scales)

        @functools.partial(jax.shard_map, mesh=mesh, in_specs=(held, columns), out_specs=features)
        def layer(x: jax.Array, kernels: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            kernels = tuple(_gathered_shards(kernel, embed, axis=0) for kernel in kernels)
            return gather_matmul(x, kernels, axis_name="tensor", split="sequence")

        products: tuple[jax.Array, ...] = layer(x, _kernels(weights))
        return products

    def dense_out(xs: tuple[jax.Array, ...], weights: tuple[Weight, ...]) -> jax.Array:
        if scales := _scales(weights):
            return fp8_matmul_scatter(layout, xs, _kernels(weights), scales)

        @functools.partial(jax.shard_map, mesh=mesh, in_specs=(features, rows), out_specs=held)
        def layer(xs: tuple[jax.Array, ...], kernels: tuple[jax.Array, ...]) -> jax.Array:
            kernels = tuple(_gathered_shards(kernel, embed, axis=1) for kernel in kernels)
            return matmul_scatter(xs, kernels, axis_name="tensor", split="sequence")

        total: jax.Array = layer(xs, _kernels(weights))
        return total

    def head(x: jax.Array, weight: Weight) -> jax.Array:
        kernel = sharding.gathered(weight.kernel, _at(mesh), NamedSharding(mesh, columns))
        return constrain(weight._replace(kernel=kernel).applied_to(x), ("batch", "residual_length", "vocab"))

    return {"dense_in": dense_in, "dense_out": dense_out, "head": head, "constrain": constrain}


def _kernels(weights: tuple[Weight, ...]) -> tuple[jax.Array, ...]:
    return tuple(weight.kernel for weight in weights)


def _scales(weights: tuple[Weight, ...]) -> tuple[Scales, ...]:
    """The FP8 scales of the weights; none if they multiply in their own type."""
    operations = (weight.dot_general for weight in weights)
    return tuple(scales_of(each) for each in operations if isinstance(each, nn.Fp8DirectDotGeneralOp))


def _gathered_shards(kernel: jax.Array, over: tuple[str, ...], axis: int) -> jax.Array:
    """The kernel gathered from its shards; the transpose reduce-scatters its gradient."""
    gathered: jax.Array = lax.all_gather(kernel, over, axis=axis, tiled=True)
    return gathered


def _at(mesh: Mesh, *spec: object) -> NamedSharding:
    return NamedSharding(mesh, P(*spec))  # type: ignore[no-untyped-call]
