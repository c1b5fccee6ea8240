"""Overlapped tensor-parallel matmuls equal plain ones, forward and backward, with as few transfers as possible."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from long_context.parallel.tensor_matmul import Split, arrivals, gather_matmul, matmul_scatter

BATCH, SEQUENCE, WIDTH, HIDDEN = 2, 16, 32, 64


class Layers:
    """A gather-matmul with two kernels and a matmul-scatter of two pairs, over a mesh or on one device."""

    def __init__(self, split: Split, bidirectional: bool = False) -> None:
        self.ring = {"axis_name": "tensor", "split": split, "bidirectional": bidirectional}
        self.shards = P("data", None, "tensor") if split == "features" else P("data", "tensor", None)
        self.heads = P("data", None, "tensor")

    def gather(self, mesh: jax.sharding.Mesh):
        columns = P(None, "tensor")
        return jax.shard_map(
            lambda x, *kernels: gather_matmul(x, kernels, **self.ring),
            mesh=mesh,
            in_specs=(self.shards, columns, columns),
            out_specs=(self.heads, self.heads),
        )

    def scatter(self, mesh: jax.sharding.Mesh):
        rows = P("tensor", None)
        return jax.shard_map(
            lambda x, y, *kernels: matmul_scatter((x, y), kernels, **self.ring),
            mesh=mesh,
            in_specs=(self.heads, self.heads, rows, rows),
            out_specs=self.shards,
        )

    def both(self, mesh: jax.sharding.Mesh):
        gather, scatter = self.gather(mesh), self.scatter(mesh)
        return lambda *args: (gather(*args[:3]), scatter(*args[3:]))


def plain(*args: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array]:
    x, up, wider_up, y, z, down, wider_down = args
    return (x @ up, x @ wider_up), y @ down + z @ wider_down


@functools.cache
def arguments(dtype: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arguments of the gather: the input and two kernels. Of the scatter: two inputs and their kernels."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(dtype)

    gather = [normal(BATCH, SEQUENCE, WIDTH), normal(WIDTH, HIDDEN), normal(WIDTH, 2 * HIDDEN)]
    scatter = [normal(BATCH, SEQUENCE, HIDDEN), normal(BATCH, SEQUENCE, 2 * HIDDEN)]
    return gather, [*scatter, normal(HIDDEN, WIDTH), normal(2 * HIDDEN, WIDTH)]


@functools.partial(jax.jit, static_argnums=0)
def forward_and_backward(layers, *args):
    out, backward = jax.vjp(layers, *args)

    def weight(x: jax.Array) -> jax.Array:
        values = jnp.cos(jnp.arange(x.size)).astype("bfloat16")  # the same for all types
        return values.astype(x.dtype).reshape(x.shape)

    return out, backward(jax.tree.map(weight, out))


@functools.cache
def wanted(dtype: str):
    gather, scatter = arguments(dtype)
    return jax.device_get(forward_and_backward(plain, *(x.astype("float32") for x in (*gather, *scatter))))


def check(layers, dtype: str, ranks: int) -> None:
    gather, scatter = arguments(dtype)
    compiled = forward_and_backward.lower(layers, *gather, *scatter).compile()
    permutes = compiled.as_text().count(" collective-permute(")
    assert permutes == 4 * (ranks - 1), f"{permutes} permutes: of both, {ranks - 1} hops there and {ranks - 1} back"
    # In bf16 a sum is rounded at each hop, a kernel's gradient on both data-parallel ranks and where they are added.
    tolerance = 2e-6 if dtype == "float32" else (ranks + 2) * 2.0**-9
    got = jax.device_get(compiled(*gather, *scatter))
    for value, expected in zip(jax.tree.leaves(got), jax.tree.leaves(wanted(dtype)), strict=True):
        assert value.dtype == dtype
        error = np.abs(value.astype("float32") - expected).max() / np.abs(expected).max()
        assert error <= tolerance


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("split", ["features", "sequence"])
def test_equals_the_plain_matmul(mesh_of, split: Split, ranks: int, dtype: str) -> None:
    mesh = mesh_of(data=1 if ranks == 8 else 2, tensor=ranks)
    check(Layers(split).both(mesh), dtype, ranks)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("split", ["features", "sequence"])
def test_equals_the_plain_matmul_with_a_bidirectional_ring(mesh_of, split: Split, ranks: int) -> None:
    check(Layers(split, bidirectional=True).both(mesh_of(data=1, tensor=ranks)), "float32", ranks)


def order_of_work(layer, args: list[jax.Array]) -> str:
    """P for each transfer and D for each product, in program order."""
    names = re.findall(r"= (?:ppermute|dot_general)\b", str(jax.make_jaxpr(layer)(*args)))
    return "".join("P" if name.endswith("ppermute") else "D" for name in names)


@pytest.mark.parametrize("split", ["features", "sequence"])
def test_a_transfer_starts_before_the_products_that_overlap_with_it(mesh_of, split: Split) -> None:
    mesh = mesh_of(data=1, tensor=4)
    gather, scatter = arguments("float32")
    # Two products a hop, one for each kernel.
    assert order_of_work(Layers(split).gather(mesh), gather) == "PDD" * 3 + "DD"
    assert order_of_work(Layers(split).scatter(mesh), scatter) == "DDP" * 3 + "DD"
    both_ways = Layers(split, bidirectional=True)
    assert order_of_work(both_ways.gather(mesh), gather) == "PPDD" + "PDDDD" + "DD"
    assert order_of_work(both_ways.scatter(mesh), scatter) == "DDP" + "DDPDDP" + "DD"


def transfers_before_products(layer, args: list[jax.Array]) -> list[int]:
    """For each matmul of the compiled program, how many transfers its operands depend on; sorted."""
    entry = jax.jit(layer).lower(*args).compile().as_text().partition("\nENTRY ")[2]
    behind: dict[str, frozenset[str]] = {}
    products = []
    instruction = r"^  (?:ROOT )?(%\S+) = (?:\(.*?\)|\S+) ([\w-]+)\((.*?)\)(.*)"
    for name, opcode, operands, attributes in re.findall(instruction, entry, re.MULTILINE):
        depends = frozenset().union(*(behind[operand] for operand in re.findall(r"%[\w.-]+", operands)))
        behind[name] = depends | {name} if opcode == "collective-permute" else depends
        if opcode == "dot" or "kind=kCustom" in attributes:  # a fusion of this kind is a library's matmul
            products.append(len(depends))
    return sorted(products)


@pytest.mark.parametrize("split", ["features", "sequence"])
def test_no_product_depends_on_the_transfer_that_overlaps_with_it(mesh_of, split: Split) -> None:
    mesh = mesh_of(data=1, tensor=4)
    gather, scatter = arguments("float32")
    assert transfers_before_products(Layers(split).gather(mesh), gather) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert transfers_before_products(Layers(split).scatter(mesh), scatter) == [0] * 8


def test_arrivals_yield_every_shard_once_with_its_owner(mesh_of) -> None:
    for bidirectional in (False, True):

        def gather(x: jax.Array, bidirectional: bool = bidirectional) -> jax.Array:
            whole = jnp.zeros((8, 1), x.dtype)
            for owner, shard in arrivals(x, "tensor", bidirectional):
                whole = whole.at[owner].add(shard)
            return whole[None]

        spread = jax.jit(jax.shard_map(gather, mesh=mesh_of(tensor=8), in_specs=P("tensor"), out_specs=P("tensor")))
        np.testing.assert_array_equal(spread(jnp.arange(8.0)), np.tile(np.arange(8.0)[None, :, None], (8, 1, 1)))


@pytest.mark.parametrize(
    ("split", "x", "kernels", "message"),
    [
        ("features", (4, 8), [(30, 16)], "kernel of 30 rows .* gathered inputs of 32 features"),
        ("sequence", (4, 8), [(32, 16)], "kernel of 32 rows .* gathered inputs of 8 features"),
        ("features", (4, 8), [(4, 8, 16)], r"kernel of shape \(4, 8, 16\); it must be a matrix"),
        ("sequence", (8,), [(8, 16)], r"inputs of shape \(8,\) have no sequence"),
        ("rows", (4, 8), [(8, 16)], 'split is "rows"; it must be one of features, sequence'),
    ],
)
def test_a_gather_with_sizes_that_do_not_match_is_refused(mesh_of, split, x, kernels, message) -> None:
    def layer() -> jax.Array:
        return gather_matmul(jnp.ones(x), [jnp.ones(k) for k in kernels], axis_name="tensor", split=split)[0]

    with pytest.raises(ValueError, match=message):
        jax.eval_shape(jax.shard_map(layer, mesh=mesh_of(tensor=4), in_specs=(), out_specs=P("tensor")))


@pytest.mark.parametrize(
    ("split", "xs", "kernels", "message"),
    [
        (
            "features",
            [(4, 8)],
            [(8, 18)],
            'matmul_scatter: 18 output features do not divide into the 4 ranks of axis "t',
        ),
        ("sequence", [(6, 8)], [(8, 16)], "6 positions of the sequence do not divide into the 4 ranks"),
        ("sequence", [(4, 8)], [(7, 16)], "kernel of 7 rows cannot multiply inputs of 8 features"),
        ("features", [(4, 8), (4, 8)], [(8, 16)], "2 inputs but 1 kernels"),
        ("features", [(4, 8), (4, 8)], [(8, 16), (8, 12)], r"\(4, 12\) and of \(4, 16\) cannot be summed"),
    ],
)
def test_a_scatter_with_sizes_that_do_not_match_is_refused(mesh_of, split, xs, kernels, message) -> None:
    def layer() -> jax.Array:
        arrays = [jnp.ones(x) for x in xs], [jnp.ones(k) for k in kernels]
        return matmul_scatter(*arrays, axis_name="tensor", split=split)

    with pytest.raises(ValueError, match=message):
        jax.eval_shape(jax.shard_map(layer, mesh=mesh_of(tensor=4), in_specs=(), out_specs=P("tensor")))


def test_the_error_names_types_that_differ(mesh_of) -> None:
    def layer() -> jax.Array:
        kernel = jnp.ones((8, 4), jnp.bfloat16)
        return gather_matmul(jnp.ones((4, 8)), [kernel], axis_name="tensor", split="sequence")[0]

    with pytest.raises(ValueError, match="inputs of type float32 but a kernel of type bfloat16"):
        jax.eval_shape(jax.shard_map(layer, mesh=mesh_of(tensor=2), in_specs=(), out_specs=P("tensor")))
