"""collective-permute under shard_map: bit for bit, for any pairs, type and size."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from jax import lax

TYPES = [
    "float32",
    "float64",
    "bfloat16",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
]
Pairs = list[tuple[int, int]]


def random_bits(world: World, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Any bit pattern, also NaNs with payloads; not for bf16, whose permutes XLA:CPU widens to f32 and back."""
    kind = jax.dtypes.canonicalize_dtype(dtype)
    if kind == np.bool_:
        return world.random.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape)) * kind.itemsize
    values = np.frombuffer(world.random.bytes(count), np.uint8).view(kind).reshape(shape)
    return np.where(np.isnan(values), kind.type(1), values) if kind == jnp.bfloat16 else values


def permuted(values: np.ndarray, pairs: Pairs) -> np.ndarray:
    """The result of a permute of values whose axis 0 is the device; zeros for devices that receive nothing."""
    result = np.zeros_like(values)
    for source, target in pairs:
        result[target] = values[source]
    return result


def check(world: World, pairs: Pairs, shape: tuple[int, ...] = (33,), dtype: str = "float32") -> None:
    values = random_bits(world, (world.n, *shape), dtype)
    permute = world.shard_map(lambda x: lax.ppermute(x, "x", pairs))
    operand = world.put(values)
    world.uses_shmem(permute, operand, calls=1 if values.size else None)
    world.equals(permute(operand), permuted(values, pairs))


def ring(n: int, step: int = 1) -> Pairs:
    return [(i, (i + step) % n) for i in range(n)]


@case(fast=("2x1", "4x1", "8x1", "2x4", "1x4"))
def ring_passes_each_block_to_the_next(world: World) -> None:
    check(world, ring(world.n))


@case(fast=("4x1",))
def reverse_ring_passes_each_block_back(world: World) -> None:
    check(world, ring(world.n, -1))


@case(fast=("2x1", "4x1", "2x4"))
def open_chain_leaves_zeros_at_its_head(world: World) -> None:
    check(world, ring(world.n)[:-1])


@case(fast=("4x1",))
def self_edges_copy_and_the_rest_gets_zeros(world: World) -> None:
    check(world, [(0, 0)] + [(i, i) for i in range(2, world.n)])


@case(fast=("4x1", "2x4"))
def random_pairs_with_holes_and_self_edges_arrive(world: World) -> None:
    sources, targets = world.random.permutation(world.n), world.random.permutation(world.n)
    check(world, [(int(s), int(t)) for s, t in zip(sources, targets, strict=True)][: max(1, world.n - 1)])


def _typed(dtype: str) -> None:
    @case(fast=("2x1",), slow=("4x1", "2x4"), name=f"permute_keeps_every_bit_of_{dtype}")
    def run(world: World) -> None:
        check(world, ring(world.n), (37,), dtype)


for _dtype in TYPES:
    _typed(_dtype)


@case(fast=("2x1",), slow=("4x1", "1x4"))
def permute_of_any_size_arrives(world: World) -> None:
    for size in (1, 4, 4095, 4096, 65537, 1 << 20):
        check(world, ring(world.n), (size,), "uint8")
    check(world, ring(world.n), (1 << 20,), "float32")


@case(fast=("2x1",), slow=("4x1",))
def permute_of_no_elements_is_no_trouble(world: World) -> None:
    values = np.zeros((world.n, 0), np.float32)
    permute = world.shard_map(lambda x: lax.ppermute(x, "x", ring(world.n)))
    world.equals(permute(world.put(values)), values)


@case(fast=("2x1",), slow=("4x1", "2x4"))
def permute_of_a_tree_moves_every_leaf(world: World) -> None:
    leaves = {
        "tiny": random_bits(world, (world.n,), "int8"),
        "odd": random_bits(world, (world.n, 3, 5), "bfloat16"),
        "large": random_bits(world, (world.n, 70_001), "float64"),
    }
    permute = world.shard_map(partial(lax.ppermute, axis_name="x", perm=ring(world.n)))
    operands = {name: world.put(values) for name, values in leaves.items()}
    world.uses_shmem(permute, operands)
    results = permute(operands)
    for name, values in leaves.items():
        world.equals(results[name], permuted(values, ring(world.n)))


@case(fast=("2x1",), slow=("4x1", "2x4"))
def steps_of_an_unrolled_ring_do_not_mix(world: World) -> None:
    values = random_bits(world, (world.n, 2000), "int32")

    def body(x: jax.Array) -> list[jax.Array]:
        seen = [x]
        for _ in range(12):
            seen.append(lax.ppermute(seen[-1], "x", ring(world.n)))
        return seen

    permute = world.shard_map(body)
    operand = world.put(values)
    world.uses_shmem(permute, operand, calls=12)
    for step, result in enumerate(permute(operand)):
        world.equals(result, np.roll(values, step, 0))
