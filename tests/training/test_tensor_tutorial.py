"""The model of the tensor-parallel tutorial: published size and results, and equality with plain array arithmetic."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from train_transformer import make_batch, make_mesh, make_state, published_batch, run
from transformer import TutorialConfig, TutorialTransformer


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def normalised(x: jax.Array, kernel: jax.Array, scales: jax.Array) -> jax.Array:
    """Queries or keys [batch, sequence, heads, head_dim]: the sum of the normalised parts of all ranks."""
    ranks, _, head_dim = scales.shape
    heads = kernel.shape[1] // head_dim
    total = 0.0
    for part in range(ranks):
        own = slice(part * x.shape[-1] // ranks, (part + 1) * x.shape[-1] // ranks)
        product = (x[..., own] @ kernel[own]).reshape(*x.shape[:2], heads, head_dim)
        total += rms_norm(product, jnp.repeat(scales[:, part], heads // ranks, axis=0))
    return total


def attention(x: jax.Array, p: dict) -> jax.Array:
    q, k = normalised(x, p["query"], p["query_scale"]), normalised(x, p["key"], p["key_scale"])
    v = (x @ p["value"]).reshape(q.shape)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(x.shape) @ p["output"] + p["output_bias"]


def mlp(x: jax.Array, p: dict) -> jax.Array:
    return jax.nn.silu(x @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


def plain(params: dict, tokens: jax.Array, config: TutorialConfig) -> jax.Array:
    x = params["embedding"][tokens] + params["positions"]
    for i in range(config.layers):
        p = jax.tree.map(lambda stacked, i=i: stacked[i], params["layers"])
        if config.parallel_block:
            normed = rms_norm(x, p["norm"])
            x = x + attention(normed, p) + mlp(normed, p)
        else:
            x = x + attention(rms_norm(x, p["attention_norm"]), p)
            x = x + mlp(rms_norm(x, p["mlp_norm"]), p)
    return rms_norm(x, params["norm"]) @ params["head"] + params["head_bias"]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("parallel_block", [True, False])
def test_equals_plain_array_arithmetic(parallel_block: bool) -> None:
    mesh = make_mesh()
    config = TutorialConfig(parallel_block=parallel_block, width=64, head_dim=8, hidden=96, layers=2, dtype="float32")
    inputs, targets = make_batch(config, mesh, 4, jax.random.key(1))
    params = make_state(config, mesh, jax.random.key(0)).params
    # Scales and biases that differ: fresh ones are all one or zero.
    noise = iter(jax.random.split(jax.random.key(2), len(jax.tree.leaves(params))))
    params = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(next(noise), x.shape), params)

    @functools.partial(jax.jit, static_argnums=0)
    def loss(logits, params: dict, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        scores = logits(params, inputs)
        return optax.softmax_cross_entropy_with_integer_labels(scores, targets).mean(), scores

    def spread(params: dict, inputs: jax.Array) -> jax.Array:
        return TutorialTransformer(config, mesh).apply({"params": params}, inputs, train=False)

    def alone(params: dict, inputs: jax.Array) -> jax.Array:
        return plain(params, inputs, config)

    gradient = jax.value_and_grad(loss, argnums=1, has_aux=True)
    got = jax.device_get(gradient(spread, params, inputs))
    want = jax.device_get(gradient(alone, jax.device_get(params), jax.device_get(inputs)))
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        # f32 sums of at most 96 products in another order, through two layers.
        assert np.abs(g - w).max() <= 1e-5 * np.abs(w).max()


def test_the_error_names_a_size_that_does_not_divide_over_the_mesh() -> None:
    config = TutorialConfig(width=96, head_dim=32)
    with pytest.raises(ValueError, match='heads 3 does not divide over the 4 devices of mesh axis "tensor"'):
        jax.eval_shape(lambda key: make_state(config, make_mesh(), key), jax.random.key(0))


def test_the_error_about_too_few_devices_says_what_to_set() -> None:
    with pytest.raises(ValueError, match="mesh data 4 x tensor 4 needs 16 devices, there are 8"):
        make_mesh(data=4)


def test_the_published_batch_does_not_depend_on_the_default_random_numbers() -> None:
    inputs, targets = published_batch(TutorialConfig(), make_mesh())
    assert targets[:, 0].tolist() == [55, 76, 31, 95, 99, 7, 23, 22]
    assert inputs[:, 0].tolist() == [0] * 8
    assert inputs[:, 1:].tolist() == targets[:, :-1].tolist()


@pytest.mark.slow  # half a minute to one and a half on two idle cores
@pytest.mark.timeout(400)
def test_reaches_the_published_accuracy_and_loss() -> None:
    """4,795,236 parameters; after 50 steps, measured with dropout, accuracy 0.9766 and loss 0.0872."""
    result = run(TutorialConfig(), make_mesh(), steps=50)
    assert result.parameters == 4_795_236
    assert result.training.accuracy >= 0.97
    assert max(result.training.loss, result.evaluation.loss) <= 0.10
