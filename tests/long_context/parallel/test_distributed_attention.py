"""Ring and gathered attention equal attention on one device, forward and backward, without extra collectives."""

import functools
import re
from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from long_context.models.llama import causal_attention
from long_context.parallel import attention_blocks
from long_context.parallel.gathered_attention import gathered_attention
from long_context.parallel.mesh import make_mesh
from long_context.parallel.mesh_shape import MeshShape
from long_context.parallel.ring_attention import ring_attention
from long_context.parallel.zigzag import zigzag_order

pytestmark = pytest.mark.usefixtures("quick_compilation")

# f32 rounding of sums over at most 64 keys and 16 features in another order, some 64 x 2^-24; bf16 rounds inputs of
# matmuls and results to 2^-9.
TOLERANCE = {"float32": 2e-5, "bfloat16": 1e-2}

BATCH, SEQUENCE, HEADS, HEAD_DIM = 2, 64, 4, 16
HELD = P(("data", "fsdp"), "context", "tensor")
SCHEMES = {
    "ring": ring_attention,
    "gather": gathered_attention,
    "gather, contiguous": functools.partial(gathered_attention, order="contiguous"),
}


class Case:
    """Attention over a mesh, its inputs, and the permutation of its tokens."""

    def __init__(self, scheme: str, shape: MeshShape, kv_heads: int = 2, scale: float = 1, dtype: str = "float32"):
        self.mesh = make_mesh(shape, jax.devices()[: shape.devices])
        contiguous = scheme.endswith("contiguous")
        self.order = np.arange(SEQUENCE) if contiguous else zigzag_order(SEQUENCE, shape.context)
        keys = jax.random.split(jax.random.key(0), 4)
        heads = (HEADS, kv_heads, kv_heads, HEADS)
        self.whole = [
            (scale * jax.random.normal(key, (BATCH, SEQUENCE, number, HEAD_DIM))).astype(dtype)
            for key, number in zip(keys, heads, strict=True)
        ]
        held = NamedSharding(self.mesh, HELD)
        self.held = [jax.device_put(x[:, self.order], held) for x in self.whole]

        @functools.partial(jax.shard_map, mesh=self.mesh, in_specs=(HELD, HELD, HELD), out_specs=HELD)
        def attention(q, k, v):
            return SCHEMES[scheme](q, k, v, "context")

        *arguments, gradient = self.held
        forward = jax.jit(functools.partial(jax.vjp, attention)).lower(*arguments)
        self.loops = forward.as_text().count("stablehlo.while")
        self.forward = forward.compile()
        out, self.pull = self.forward(*arguments)
        # Compiled by itself: beside the forward, the compiler could take over what that received.
        self.backward = jax.jit(lambda pull, gradient: pull(gradient)).lower(self.pull, gradient).compile()
        self.results = [in_order(x, self.order) for x in (out, *self.backward(self.pull, gradient))]

    def expected(self) -> list[np.ndarray]:
        *arguments, gradient = (x.astype(jnp.float32) for x in self.whole)
        out, pull = jax.vjp(causal_attention, *arguments)
        return [np.asarray(x) for x in (out, *pull(gradient))]


def in_order(x: jax.Array, order: np.ndarray) -> np.ndarray:
    """The array in the order of the sequence, f32."""
    return np.asarray(x, np.float32)[:, np.argsort(order)]


# Several tests look at the same program.
case_of = functools.cache(Case)


def collectives(compiled: jax.stages.Compiled) -> Counter[str]:
    """Number of each collective in a compiled module."""
    names = "collective-permute|all-gather|reduce-scatter|all-reduce|all-to-all"
    return Counter(re.findall(rf" ({names})(?:-start)?\(", compiled.as_text()))


def check(case: Case, tolerance: float) -> None:
    for name, got, want in zip(("out", "dq", "dk", "dv"), case.results, case.expected(), strict=True):
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error <= tolerance, f"{name} is off by {error:.1e} of its largest value"


@pytest.mark.parametrize(
    ("scheme", "shape", "kv_heads"),
    [
        ("ring", MeshShape(), 4),
        ("ring", MeshShape(context=2), 1),
        ("ring", MeshShape(context=4), 2),
        ("ring", MeshShape(data=2, context=2, tensor=2), 2),
        ("ring", MeshShape(context=8), 2),
        ("gather", MeshShape(context=2), 1),
        ("gather", MeshShape(fsdp=2, context=2, tensor=2), 2),
        ("gather", MeshShape(context=4), 2),
        ("gather, contiguous", MeshShape(context=4), 2),
    ],
    ids=str,
)
def test_distributed_attention_equals_attention_on_one_device(scheme: str, shape: MeshShape, kv_heads: int) -> None:
    check(case_of(scheme, shape, kv_heads), TOLERANCE["float32"])


@pytest.mark.parametrize("scheme", ["ring", "gather"])
def test_bfloat16_inputs_lose_no_more_than_their_own_rounding(scheme: str) -> None:
    check(Case(scheme, MeshShape(context=2), dtype="bfloat16"), TOLERANCE["bfloat16"])


@pytest.mark.parametrize("scheme", ["ring", "gather"])
def test_scores_far_beyond_the_range_of_exp_stay_exact(scheme: str) -> None:
    # Scores of some hundreds: exp overflows without the running maximum. Their rounding grows with them.
    check(Case(scheme, MeshShape(context=2), scale=10), 100 * TOLERANCE["float32"])


@pytest.mark.parametrize("scheme", ["ring", "gather"])
def test_queries_in_pieces_give_the_same_result(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = case_of(scheme, MeshShape(context=2), 1)
    monkeypatch.setattr(attention_blocks, "_QUERIES_AT_ONCE", 4)
    pieces = Case(scheme, MeshShape(context=2), 1)
    assert pieces.loops > whole.loops
    for got, expected in zip(pieces.results, whole.results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [MeshShape(data=2, context=2, tensor=2), MeshShape(context=4)], ids=str)
def test_the_ring_has_only_the_hops_that_blocks_and_gradients_need(shape: MeshShape) -> None:
    case, hops = case_of("ring", shape, 2), shape.context - 1
    assert collectives(case.forward) == {"collective-permute": hops}, "keys and values visit every other rank once"
    assert collectives(case.backward) == {"collective-permute": 2 * hops}, "once more, and their gradients back home"


@pytest.mark.parametrize("scheme", ["gather", "gather, contiguous"])
def test_gathered_attention_gathers_twice_and_scatters_once(scheme: str) -> None:
    case = case_of(scheme, MeshShape(context=4), 2)
    assert collectives(case.forward) == {"all-gather": 1}
    assert collectives(case.backward) == {"all-gather": 1, "reduce-scatter": 1}, "what the forward gathered is not kept"


@pytest.mark.parametrize("scheme", ["ring", "gather"])
def test_the_forward_keeps_memory_in_proportion_to_the_own_tokens(scheme: str) -> None:
    case = case_of(scheme, MeshShape(context=4), 2)
    kept = sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(case.pull))
    q, k, v = (x.nbytes // 4 for x in case.held[:3])
    normaliser = q // HEAD_DIM
    assert kept <= 2 * q + k + v + normaliser + 64


def scheme_on_one_device(scheme: Callable[..., jax.Array], local: int, heads: int, kv_heads: int) -> None:
    q, kv = jnp.zeros((1, local, heads, 8)), jnp.zeros((1, local, kv_heads, 8))
    whole = P(None, "context")
    mesh = make_mesh(MeshShape(), jax.devices()[:1])
    jax.shard_map(lambda *x: scheme(*x, "context"), mesh=mesh, in_specs=(whole,) * 3, out_specs=whole)(q, kv, kv)


@pytest.mark.parametrize("scheme", [ring_attention, gathered_attention])
@pytest.mark.parametrize(
    ("local", "heads", "kv_heads", "message"),
    [
        (5, 4, 2, "needs two equal halves on every rank, got 5 tokens"),
        (4, 4, 3, "4 query heads do not divide into 3"),
    ],
)
def test_the_error_names_wrong_shapes(
    scheme: Callable[..., jax.Array], local: int, heads: int, kv_heads: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        scheme_on_one_device(scheme, local, heads, kv_heads)
