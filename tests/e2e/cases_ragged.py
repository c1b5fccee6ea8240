"""`lax.ragged_all_to_all` against NumPy: stock XLA:CPU has no thunk for it."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from case_world import World, case
from cases_gather import NARROW
from cases_permute import TYPES
from jax import lax
from jax.sharding import PartitionSpec as P


@dataclass
class Exchange:
    """Which rows go where, in groups of equal size; every array has an entry for each device.

    Attributes:
      inputs, outputs: rows.
      starts, sizes, targets, received: the numbers that each device gives to `lax.ragged_all_to_all`.
      expected: the results.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    targets: np.ndarray
    received: np.ndarray
    expected: np.ndarray

    @property
    def numbers(self) -> tuple[np.ndarray, ...]:
        return self.starts, self.sizes, self.targets, self.received


def exchange(
    world: World,
    groups: list[list[int]],
    most: int,
    row: tuple[int, ...],
    dtype: str,
    slices: int = 1,
    counts: str = "int32",
) -> Exchange:
    """A random exchange: a third of the slices is empty, with an offset at the end, and the others have gaps."""
    members = len(groups[0])
    rows = members * slices * (most + 2)

    def values() -> np.ndarray:
        limit = 2 if dtype == "bool" else 100
        return world.random.integers(0, limit, (world.n, rows, *row)).astype(jnp.dtype(dtype))

    starts, sizes, targets, received = (np.zeros((world.n, members * slices), counts) for _ in range(4))
    inputs, outputs = values(), values()
    expected = outputs.copy()
    sent, filled = np.zeros(world.n, int), np.zeros(world.n, int)
    for group in groups:
        for i, source in enumerate(group):
            for j, target in enumerate(group):
                for slice_ in range(slices):
                    size = int(world.random.integers(1, most + 1)) if world.random.integers(3) else 0
                    # JAX's gradient of the output is wrong if an empty slice begins where another one does.
                    start = sent[source] + world.random.integers(3) if size else rows
                    place = filled[target] + world.random.integers(3) if size else rows
                    there, here = j * slices + slice_, i * slices + slice_
                    starts[source, there], sizes[source, there] = start, size
                    targets[source, there], received[target, here] = place, size
                    expected[target, place : place + size] = inputs[source, start : start + size]
                    if size:
                        sent[source], filled[target] = start + size, place + size
    return Exchange(inputs, outputs, starts, sizes, targets, received, expected)


def send(x: jax.Array, y: jax.Array, *numbers: jax.Array) -> jax.Array:
    return lax.ragged_all_to_all(x[0], y[0], *(number[0] for number in numbers), axis_name="x")[None]


def put_exchange(world: World, moved: Exchange) -> list[jax.Array]:
    return [world.put(values) for values in (moved.inputs, moved.outputs, *moved.numbers)]


#: Rows of 1, 2, 3, 6, 16, 20 and 400 bytes, and of several dimensions.
_ROWS: tuple[tuple[str, tuple[int, ...]], ...] = (
    *(("bool", ()), ("bfloat16", ()), ("int8", (3,)), ("float16", (3,)), ("complex128", ())),
    *(("float32", (5,)), ("float64", (2, 25)), ("int32", (1, 1))),
)


@case(fast=("2x1", "4x1"), slow=("1x4", "2x4"))
def rows_of_every_width_come_to_where_the_sender_says(world: World) -> None:
    everyone = [list(range(world.n))]
    for number, (dtype, row) in enumerate(_ROWS):
        moved = exchange(world, everyone, 37, row, dtype, 1 + number % 3, ("int32", "int64")[number % 2])
        function, operands = world.shard_map(send), put_exchange(world, moved)
        world.uses_shmem(function, *operands)
        world.equals(function(*operands), moved.expected)


@case(fast=("2x1",), slow=("4x1",))
def rows_that_fill_many_slots_and_no_rows_at_all(world: World) -> None:
    everyone = [list(range(world.n))]
    function = world.shard_map(send)
    moved = exchange(world, everyone, 30_000, (4,), "float32")
    operands = put_exchange(world, moved)
    world.uses_shmem(function, *operands)
    world.equals(function(*operands), moved.expected)
    empty = np.zeros_like(moved.sizes)
    operands = [*operands[:2], *map(world.put, (moved.starts, empty, moved.targets, empty))]
    world.equals(function(*operands), moved.outputs)


@case(fast=("4x1",), slow=("2x4",))
def groups_of_every_second_device_send_ragged_rows_by_themselves(world: World) -> None:
    groups = [list(range(0, world.n, 2)), list(range(1, world.n, 2))]
    moved = exchange(world, groups, 50, (3,), "float16", 2)

    def body(x: jax.Array, y: jax.Array, *numbers: jax.Array) -> jax.Array:
        operands = [operand[0] for operand in (x, y, *numbers)]
        return lax.ragged_all_to_all(*operands, axis_name="x", axis_index_groups=groups)[None]

    function, operands = world.shard_map(body), put_exchange(world, moved)
    world.uses_shmem(function, *operands)
    world.equals(function(*operands), moved.expected)


@case(fast=("2x1",), slow=("4x1",))
def groups_of_one_device_send_ragged_rows_to_themselves(world: World) -> None:
    groups = [[i] for i in range(world.n)]
    moved = exchange(world, groups, 50, (5,), "float32", 3)

    def body(x: jax.Array, y: jax.Array, *numbers: jax.Array) -> jax.Array:
        operands = [operand[0] for operand in (x, y, *numbers)]
        return lax.ragged_all_to_all(*operands, axis_name="x", axis_index_groups=groups)[None]

    function, operands = world.shard_map(body), put_exchange(world, moved)
    world.uses_shmem(function, *operands)
    world.equals(function(*operands), moved.expected)


@case(fast=("2x1", "4x1"), slow=("1x4", "2x4"))
def ragged_rows_have_their_gradients(world: World) -> None:
    moved = exchange(world, [list(range(world.n))], 20, (6,), "float32")
    weights = world.random.integers(-9, 9, moved.outputs.shape).astype(np.float32)

    def body(w: jax.Array, x: jax.Array, y: jax.Array, *numbers: jax.Array) -> tuple[jax.Array, ...]:
        return jax.grad(lambda x, y: jnp.sum(send(x, y, *numbers) * w), (0, 1))(x, y)

    function = world.shard_map(body)
    operands = [world.put(weights), *put_exchange(world, moved)]
    world.uses_shmem(function, *operands)
    of_input, of_output = np.zeros_like(moved.inputs), weights.copy()
    for source in range(world.n):
        for target in range(world.n):
            start, size = moved.starts[source, target], moved.sizes[source, target]
            place = moved.targets[source, target]
            of_input[source, start : start + size] = weights[target, place : place + size]
            of_output[target, place : place + size] = 0
    for result, want in zip(function(*operands), (of_input, of_output), strict=True):
        world.equals(result, want)


@case(fast=("2x1", "4x1"), slow=("1x4", "2x4"))
def ragged_rows_in_a_loop_between_other_collectives(world: World) -> None:
    moved = exchange(world, [list(range(world.n))], 30, (2,), "int32", 2)

    def body(x: jax.Array, y: jax.Array, *numbers: jax.Array) -> jax.Array:
        def step(_: jax.Array, y: jax.Array) -> jax.Array:
            y = send(x + y, y, *numbers)
            return y + lax.psum(y[:, :1], "x") % 5

        return lax.fori_loop(0, 4, step, y)

    function, operands = world.shard_map(body), put_exchange(world, moved)
    world.uses_shmem(function, *operands)
    expected = moved.outputs
    for _ in range(4):
        sent, expected = moved.inputs + expected, expected.copy()
        for source in range(world.n):
            for i, (start, size, place) in enumerate(
                zip(moved.starts[source], moved.sizes[source], moved.targets[source], strict=True)
            ):
                expected[i // 2, place : place + size] = sent[source, start : start + size]
        expected += expected[:, :1].sum(0, dtype=np.int32) % np.int32(5)
    world.equals(function(*operands), expected)


@case(fast=("2x1", "4x1"), slow=("1x4", "2x4"))
def tokens_go_to_their_experts_and_come_back(world: World) -> None:
    """Sizes that only the device knows: an expert on each, tokens sorted by expert, as in a mixture of experts."""
    n, tokens, features = world.n, 64, 8
    values = world.random.integers(-99, 99, (n, tokens, features)).astype(np.float32)
    experts = world.random.integers(0, n, (4, n, tokens)).astype(np.int32)
    experts[3] = n - 1  # all to one

    def body(x: jax.Array, expert: jax.Array) -> jax.Array:
        order = jnp.argsort(expert[0], stable=True)
        sizes = jnp.sum(expert[0][:, None] == jnp.arange(n), 0, dtype=jnp.int32)
        everyones = lax.all_gather(sizes, "x")  # from, to
        me = lax.axis_index("x")
        starts = jnp.cumsum(sizes) - sizes
        before = jnp.cumsum(everyones, 0) - everyones
        received = everyones[:, me]
        there = jnp.zeros((n * tokens, features), x.dtype)
        there = lax.ragged_all_to_all(x[0][order], there, starts, sizes, before[me], received, axis_name="x")
        there = there * (me + 2)
        theirs = jnp.cumsum(everyones, 1) - everyones
        back = lax.ragged_all_to_all(
            there, jnp.zeros_like(x[0]), before[:, me], received, theirs[:, me], sizes, axis_name="x"
        )
        return jnp.zeros_like(back).at[order].set(back)[None]

    function = world.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))
    for of_token in experts:
        operands = world.put(values), world.put(of_token)
        world.uses_shmem(function, *operands)
        world.equals(function(*operands), values * (of_token[..., None] + 2))


@case(fast=("2x1",), slow=("4x1",))
def a_donated_output_may_hold_the_ragged_rows(world: World) -> None:
    moved = exchange(world, [list(range(world.n))], 40, (4,), "float32")
    mapped = jax.shard_map(send, mesh=world.mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    function = jax.jit(mapped, donate_argnums=1)
    for _ in range(3):
        x, y, *numbers = put_exchange(world, moved)
        world.equals(function(x, y, *numbers), moved.expected)


@case(fast=("2x1",), slow=("4x1", "1x4"))
def ragged_rows_of_every_type_with_numbers_of_every_type(world: World) -> None:
    function = world.shard_map(send)
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    for number, dtype in enumerate((*TYPES, *NARROW)):
        moved = exchange(world, [list(range(world.n))], 5, (3,), dtype, counts=integers[number % len(integers)])
        operands = put_exchange(world, moved)
        world.uses_shmem(function, *operands, calls=1)
        world.equals(function(*operands), moved.expected)


@case(fast=("2x1", "4x1"), slow=("2x4",))
def where_ragged_rows_overlap_the_later_members_hold(world: World) -> None:
    n, rows, slices = world.n, 60, 2
    values = world.random.integers(0, 100, (2, n, rows, 3)).astype(np.float32)
    sizes = world.random.integers(0, 20, (n, n, slices))  # from, to
    starts, places = (world.random.integers(0, rows - 20, sizes.shape) for _ in range(2))
    expected = values[1].copy()
    for target in range(n):
        for source in range(n):
            for start, place, size in zip(
                starts[source, target], places[source, target], sizes[source, target], strict=True
            ):
                expected[target, place : place + size] = values[0, source, start : start + size]
    numbers = (starts, sizes, places, sizes.swapaxes(0, 1))
    operands = [world.put(array) for array in (*values, *(x.reshape(n, -1).astype(np.int32) for x in numbers))]
    function = world.shard_map(send)
    world.uses_shmem(function, *operands, calls=1)
    world.equals(function(*operands), expected)


@case(fast=("2x1", "4x1"), slow=("1x4",))
def vmap_batches_ragged_rows(world: World) -> None:
    moved = [exchange(world, [list(range(world.n))], 9, (2,), "float32", slices=2) for _ in range(3)]
    operands = [
        world.put(np.stack(arrays, 1))
        for arrays in zip(*((m.inputs, m.outputs, *m.numbers) for m in moved), strict=True)
    ]

    def body(*operands: jax.Array) -> jax.Array:
        rows = jax.vmap(lambda *one: lax.ragged_all_to_all(*one, axis_name="x"))
        return rows(*(operand[0] for operand in operands))[None]

    function = world.shard_map(body)
    world.uses_shmem(function, *operands)
    world.equals(function(*operands), np.stack([m.expected for m in moved], 1))


@case(fast=("2x1",), slow=("4x1",))
def one_array_may_be_both_input_and_output_of_ragged_rows(world: World) -> None:
    moved = exchange(world, [list(range(world.n))], 40, (4,), "float32")
    function = world.shard_map(lambda x, *numbers: send(x, x, *numbers))
    x, _, *numbers = put_exchange(world, moved)
    expected = moved.inputs.copy()
    for source in range(world.n):
        for target in range(world.n):
            start, size, place = (a[source, target] for a in (moved.starts, moved.sizes, moved.targets))
            expected[target, place : place + size] = moved.inputs[source, start : start + size]
    world.uses_shmem(function, x, *numbers, calls=1)
    world.equals(function(x, *numbers), expected)
