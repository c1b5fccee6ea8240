"""What the decoder does its own way on a mesh."""

from __future__ import annotations

import functools

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xla_shmem.models.llama import Operations, Weight
from xla_shmem.parallel import sharding
from xla_shmem.parallel.gathered_attention import gathered_attention
from xla_shmem.parallel.ring_attention import ring_attention

#: Schemes of context parallelism.
ATTENTION = {"ring": ring_attention, "gather": gathered_attention}


def make_operations(mesh: Mesh, attention: str = "ring", shard_over_context: bool = False) -> Operations:
    """The operations for a mesh whose sequences are dealt in zig-zag order along `context`.

    Args:
      mesh: of the job.
      attention: `ring` sends blocks of keys and values round the ring, `gather` gathers them all.
      shard_over_context: as for `sharding.parameter_rules`.
    """
    rules = dict(sharding.parameter_rules(shard_over_context))
    embed = rules["embed"]

    def at(*spec: object) -> NamedSharding:
        return NamedSharding(mesh, P(*spec))  # type: ignore[no-untyped-call]

    def gathered_in(weight: Weight) -> Weight:
        return weight._replace(kernel=sharding.gathered(weight.kernel, at(None, "tensor"), at(embed, "tensor")))

    def dense_in(x: jax.Array, weights: tuple[Weight, ...]) -> tuple[jax.Array, ...]:
        return tuple(gathered_in(weight).applied_to(x) for weight in weights)

    def dense_out(x: jax.Array, weight: Weight) -> jax.Array:
        kernel = sharding.gathered(weight.kernel, at("tensor", None), at("tensor", embed))
        return constrain(weight._replace(kernel=kernel).applied_to(x), ("batch", "length", "width"))

    def constrain(x: jax.Array, names: tuple[str | None, ...]) -> jax.Array:
        return sharding.pinned(x, sharding.activation(mesh, names))

    def embedding(table: jax.Array) -> jax.Array:
        whole = at("tensor", None)
        # The second pin is for its transpose: each rank adds up its own tokens' rows before rows are split. Asked
        # for split rows alone, the partitioner would gather all tokens on every rank.
        return sharding.pinned(sharding.gathered(table, whole, at("tensor", embed)), whole)

    scheme = ATTENTION[attention]
    heads = P(sharding.BATCH, "context", "tensor")  # type: ignore[no-untyped-call]

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(heads, heads, heads), out_specs=heads)
    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return scheme(q, k, v, "context")

    return Operations(attend, dense_in, dense_out, constrain, embedding)
