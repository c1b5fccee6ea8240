"""The decoder on one device: published sizes, rotary frequencies, causality, and the effect of each structure."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from long_context.models.llama import Llama, causal_attention, next_token_loss
from long_context.models.llama_config import PRESETS, LlamaConfig, RopeScaling, parameter_count
from long_context.models.rope import frequencies, rotate, rotation

SMALL = LlamaConfig(vocab=32, width=16, layers=2, heads=4, kv_heads=2, hidden=24)


#: Parameters of the published models.
PUBLISHED = {
    "8b": 8_030_261_248,
    "1b": 1_235_814_400,
    "llama3.1-8b": 8_030_261_248,
    "mistral-7b": 7_248_023_552,
    "mixtral-8x7b": 46_702_792_704,
}


@functools.cache
def variables(config: LlamaConfig):
    return jax.jit(Llama(config).init)(jax.random.key(0), jnp.zeros((1, 2), int), jnp.arange(2))


def run(config: LlamaConfig, values, tokens: jax.Array) -> jax.Array:
    return jax.jit(Llama(config).apply)(values, tokens, jnp.arange(tokens.shape[1]))


def counted(config: LlamaConfig) -> int:
    tokens = jnp.zeros((1, 2), int)
    shapes = jax.eval_shape(Llama(config).init, jax.random.key(0), tokens, tokens[0])
    return sum(math.prod(x.shape) for x in jax.tree.leaves(shapes["params"]))


@pytest.mark.parametrize(("preset", "parameters"), PUBLISHED.items())
def test_published_models_have_their_published_number_of_parameters(preset: str, parameters: int) -> None:
    assert parameter_count(PRESETS[preset]) == parameters
    assert counted(PRESETS[preset]) == parameters


@pytest.mark.parametrize(
    "changes", [{}, {"tied_head": True}, {"parallel_block": True}, {"qk_norm": True}, {"experts": 4}], ids=str
)
def test_parameter_count_is_right_for_every_structure(changes: dict[str, bool]) -> None:
    config = dataclasses.replace(SMALL, **changes)
    assert parameter_count(config) == counted(config)


def test_scores_are_in_the_type_of_the_computation() -> None:
    model = Llama(SMALL, dtype=jnp.bfloat16)
    tokens = jnp.zeros((3, 8), int)
    values = jax.eval_shape(model.init, jax.random.key(0), tokens, jnp.arange(8))
    scores = jax.eval_shape(model.apply, values, tokens, jnp.arange(8))
    assert (scores.shape, scores.dtype) == ((3, 8, SMALL.vocab), jnp.bfloat16)
    assert {x.dtype for x in jax.tree.leaves(values["params"])} == {jnp.dtype("float32")}


@pytest.mark.parametrize("changes", [{}, {"tied_head": True}, {"parallel_block": True, "qk_norm": True}], ids=str)
def test_a_fresh_model_is_about_as_good_as_guessing(changes: dict[str, bool]) -> None:
    config = dataclasses.replace(SMALL, **changes)
    tokens, targets = jax.random.randint(jax.random.key(1), (2, 4, 64), 0, SMALL.vocab)
    loss = next_token_loss(run(config, variables(config), tokens), targets)
    assert abs(float(loss) - math.log(SMALL.vocab)) < 1.0


def test_loss_is_the_cross_entropy_of_the_targets() -> None:
    scores = jax.random.normal(jax.random.key(5), (2, 3, 7))
    targets = jax.random.randint(jax.random.key(6), (2, 3), 0, 7)
    chosen = np.take_along_axis(np.asarray(jax.nn.log_softmax(scores)), np.asarray(targets)[..., None], axis=-1)
    assert float(next_token_loss(scores, targets)) == pytest.approx(-chosen.mean(), rel=1e-6)


@pytest.mark.parametrize("parallel_block", [False, True])
def test_later_tokens_do_not_change_earlier_scores(parallel_block: bool) -> None:
    config = dataclasses.replace(SMALL, parallel_block=parallel_block)
    values = variables(config)
    tokens = jax.random.randint(jax.random.key(2), (1, 16), 0, SMALL.vocab)
    before, after = run(config, values, tokens), run(config, values, tokens.at[0, 10].add(1))
    np.testing.assert_array_equal(before[:, :10], after[:, :10])
    assert not np.allclose(before[:, 10:], after[:, 10:])


def test_rotated_scores_depend_only_on_distance() -> None:
    config = LlamaConfig(width=8, heads=1, kv_heads=1)
    q, k = jax.random.normal(jax.random.key(3), (2, 1, 1, 1, 8))

    def score(position_q: int, position_k: int) -> float:
        by_q, by_k = (rotation(jnp.array([p]), config) for p in (position_q, position_k))
        return float(jnp.sum(rotate(q, by_q) * rotate(k, by_k)))

    assert score(5, 2) == pytest.approx(score(105, 102), rel=1e-4)
    assert score(5, 2) != pytest.approx(score(5, 4), rel=1e-2)


def published_scaling(frequency: float, scaling: RopeScaling) -> float:
    """One frequency by the published rule of Llama 3.1, which has three cases of the wavelength."""
    wavelength = 2 * math.pi / frequency
    if wavelength < scaling.original / scaling.high:
        return frequency
    if wavelength > scaling.original / scaling.low:
        return frequency / scaling.factor
    smooth = (scaling.original / wavelength - scaling.low) / (scaling.high - scaling.low)
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency


def test_scaled_frequencies_are_those_of_llama_3_1() -> None:
    config = PRESETS["llama3.1-8b"]
    unscaled = [500000.0 ** (-2 * pair / 128) for pair in range(64)]
    want = [published_scaling(frequency, RopeScaling()) for frequency in unscaled]
    np.testing.assert_allclose(frequencies(config), want, rtol=1e-6)
    np.testing.assert_allclose(frequencies(PRESETS["8b"]), unscaled, rtol=1e-6)
    changed = np.isclose(want, unscaled, rtol=1e-6), np.isclose(want, np.array(unscaled) / 8, rtol=1e-6)
    assert changed[0].any()
    assert changed[1].any()
    assert not (changed[0] | changed[1]).all(), "some frequencies are blended"


def test_grouped_heads_equal_repeated_key_value_heads() -> None:
    keys = jax.random.split(jax.random.key(4), 3)
    q = jax.random.normal(keys[0], (1, 8, 4, 8))
    k, v = (jax.random.normal(key, (1, 8, 2, 8)) for key in keys[1:])
    repeated = causal_attention(q, jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2))
    np.testing.assert_allclose(causal_attention(q, k, v), repeated, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"heads": 3}, "width 128 does not divide into 3 heads; choose a width that is a multiple of 3"),
        ({"heads": 128, "kv_heads": 1}, "gives 1 features a head; rotary embedding pairs them up"),
        ({"kv_heads": 3}, "4 heads do not divide into 3 key/value heads"),
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"kv_heads": 0}, "kv-heads is 0; it must be at least 1"),
        ({"experts": 4, "experts_per_token": 5}, "5 of 4 experts compute a token; choose 1 to 4"),
        ({"experts": 4, "parallel_block": True}, "parallel-block has no mixture of experts"),
    ],
)
def test_the_error_about_sizes_says_how_to_fix_them(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LlamaConfig(**sizes)


def test_a_scaling_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"low=4.0, high=4.0.* must have factor >= 1, 0 < low < high"):
        RopeScaling(low=4.0)
