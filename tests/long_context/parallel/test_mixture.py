"""A mixture of experts against sums over all experts: values, gradients, and tokens that all choose the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from long_context.models.experts import Experts, apply_experts, balance_loss
from long_context.parallel import sharding
from long_context.parallel.expert_exchange import distributed_experts
from long_context.parallel.mesh import make_mesh
from long_context.parallel.mesh_shape import MeshShape
from long_context.train.config import ConfigError, TrainConfig

pytestmark = pytest.mark.usefixtures("quick_compilation")

BATCH, TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 4, 8, 16, 24, 8, 2


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


WEIGHTS = Experts(draw(1, EXPERTS, WIDTH, HIDDEN), draw(2, EXPERTS, WIDTH, HIDDEN), draw(3, EXPERTS, HIDDEN, WIDTH))
X, COTANGENT = draw(4, BATCH, TOKENS, WIDTH), draw(5, BATCH, TOKENS, WIDTH)
#: The router's scores: of all kinds, and the same two experts for every token.
SCORES = {"spread": draw(6, BATCH, TOKENS, EXPERTS), "all on two": draw(7, BATCH, TOKENS, EXPERTS)}
SCORES["all on two"][..., [2, 3]] += 20


def by_numpy(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Token by token, in f64."""
    out = np.zeros_like(x, np.float64)
    for at in np.ndindex(x.shape[:2]):
        chosen = np.argsort(-scores[at])[:CHOSEN]
        weights = np.exp(scores[at][chosen].astype(np.float64))
        for expert, weight in zip(chosen, weights / weights.sum(), strict=True):
            gate, up = (x[at].astype(np.float64) @ kernel[expert] for kernel in (WEIGHTS.gate, WEIGHTS.up))
            out[at] += weight * ((gate / (1 + np.exp(-gate)) * up) @ WEIGHTS.down[expert])
    return out


def all_experts(x: jax.Array, scores: jax.Array, weights: Experts) -> jax.Array:
    """Every token through every expert; those that were not chosen have weight 0."""
    best = jax.lax.top_k(scores, CHOSEN)[0][..., -1:]
    share = jax.nn.softmax(jnp.where(scores >= best, scores, -jnp.inf), axis=-1)
    gate, up = (jnp.einsum("btw,ewh->bteh", x, kernel) for kernel in (weights.gate, weights.up))
    return jnp.einsum("bteh,ehw,bte->btw", jax.nn.silu(gate) * up, weights.down, share)


@functools.cache
def expected(scores: str) -> list[np.ndarray]:
    out, pull = jax.vjp(all_experts, X, SCORES[scores], WEIGHTS)
    np.testing.assert_allclose(out, by_numpy(X, SCORES[scores]), rtol=1e-4, atol=1e-4)
    return [np.asarray(each) for each in (out, *jax.tree.leaves(pull(jnp.asarray(COTANGENT))))]


def check(mixture, scores: str, *arguments) -> None:
    def results(cotangent, *arguments):
        out, pull = jax.vjp(mixture, *arguments)
        return out, pull(cotangent)

    found = jax.tree.leaves(jax.jit(results)(COTANGENT, *arguments))
    names = ("out", "x", "scores", "gate", "up", "down")
    for name, got, want in zip(names, found, expected(scores), strict=True):
        error = np.abs(np.asarray(got) - want).max() / np.abs(want).max()
        assert error <= 2e-5, f"{name} is off by {error:.1e} of its largest value"


@pytest.mark.parametrize("scores", SCORES)
def test_one_device_computes_the_chosen_experts(scores: str) -> None:
    check(lambda *x: apply_experts(*x, CHOSEN), scores, X, SCORES[scores], WEIGHTS)


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize(
    "shape",
    [
        MeshShape(expert=4),
        MeshShape(expert=2, context=2, tensor=2),
        MeshShape(fsdp=2, expert=2, context=2, context_shards=2),
    ],
    ids=str,
)
def test_experts_on_a_mesh_compute_the_same(scores: str, shape: MeshShape) -> None:
    mesh = make_mesh(shape, jax.devices()[: shape.devices])
    check(lambda *x: distributed_experts(mesh, *x, CHOSEN), scores, X, SCORES[scores], WEIGHTS)


def test_a_device_holds_its_experts_only_and_tokens_travel() -> None:
    shape = MeshShape(expert=8)
    mesh = make_mesh(shape, jax.devices())
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("expert"))
    rows = sharding.activation(mesh, ("batch", "length", None))
    x, scores = (jax.ShapeDtypeStruct((8, TOKENS, size), jnp.float32, sharding=rows) for size in (WIDTH, EXPERTS))
    weights = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, w.dtype, sharding=split), WEIGHTS)
    mixture = jax.jit(lambda *a: distributed_experts(mesh, *a, CHOSEN))
    hlo = mixture.lower(x, scores, weights).compile().as_text()
    assert " all-to-all(" in hlo
    assert f"f32[{EXPERTS},{WIDTH},{HIDDEN}]" not in hlo


def test_balance_loss_is_least_if_the_experts_share_the_tokens() -> None:
    even = np.full((1, EXPERTS, EXPERTS), -5.0, np.float32)
    for token in range(EXPERTS):
        even[0, token, [token, (token + 1) % EXPERTS]] = [5, 4]
    shares = np.exp(even) / np.exp(even).sum(-1, keepdims=True)
    by_hand = EXPERTS * np.sum(np.full(EXPERTS, CHOSEN / EXPERTS) * shares.mean((0, 1)))
    assert float(balance_loss(even, CHOSEN)) == pytest.approx(by_hand, rel=1e-6)
    assert by_hand == pytest.approx(CHOSEN)
    assert float(balance_loss(SCORES["all on two"], CHOSEN)) == pytest.approx(EXPERTS, rel=1e-3)


def test_experts_that_do_not_divide_over_their_axis_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 experts do not divide over expert 3"):
        TrainConfig(preset="tiny-moe", expert=3, context=1, batch=3)
    with pytest.raises(ConfigError, match=r"0 experts do not divide over expert 2; .*dense model"):
        TrainConfig(expert=2, context=1, batch=2)
