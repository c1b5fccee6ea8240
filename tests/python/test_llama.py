"""The decoder and its training step: shapes, causality, learning, and equality of every mesh."""

import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_shmem.models import llama, rope
from xla_shmem.models.config import LlamaConfig
from xla_shmem.train.config import TrainConfig

SMALL = LlamaConfig(vocab=32, width=16, layers=2, heads=4, kv_heads=2, hidden=24)


@pytest.fixture(scope="module")
def params() -> llama.Params:
    return llama.init_params(SMALL, jax.random.key(0))


def run(params: llama.Params, tokens: jax.Array) -> jax.Array:
    return llama.logits(params, tokens, jnp.arange(tokens.shape[1]), SMALL, llama.causal_attention)


def test_logits_have_a_score_for_every_token_value(params: llama.Params) -> None:
    assert run(params, jnp.zeros((3, 8), int)).shape == (3, 8, SMALL.vocab)


def test_a_fresh_model_is_about_as_good_as_guessing(params: llama.Params) -> None:
    tokens = jax.random.randint(jax.random.key(1), (4, 64), 0, SMALL.vocab)
    loss = llama.next_token_loss(params, tokens, tokens, jnp.arange(64), SMALL, llama.causal_attention)
    assert abs(float(loss) - math.log(SMALL.vocab)) < 1.0


def test_later_tokens_do_not_change_earlier_scores(params: llama.Params) -> None:
    tokens = jax.random.randint(jax.random.key(2), (1, 16), 0, SMALL.vocab)
    changed = tokens.at[0, 10].add(1)
    before, after = run(params, tokens), run(params, changed)
    np.testing.assert_array_equal(before[:, :10], after[:, :10])
    assert not np.allclose(before[:, 10:], after[:, 10:])


def test_rotated_scores_depend_on_distance_only() -> None:
    q, k = jax.random.normal(jax.random.key(3), (2, 1, 1, 1, 8))

    def score(position_q: int, position_k: int) -> float:
        by_q, by_k = (llama.rotation(jnp.array([p]), 8, 10000.0) for p in (position_q, position_k))
        return float(jnp.sum(llama.rotate(q, by_q) * llama.rotate(k, by_k)))

    assert score(5, 2) == pytest.approx(score(105, 102), rel=1e-4)
    assert score(5, 2) != pytest.approx(score(5, 4), rel=1e-2)


def test_grouped_heads_equal_repeated_key_value_heads() -> None:
    keys = jax.random.split(jax.random.key(4), 3)
    q = jax.random.normal(keys[0], (1, 8, 4, 8))
    k, v = (jax.random.normal(key, (1, 8, 2, 8)) for key in keys[1:])
    repeated = llama.causal_attention(q, jnp.repeat(k, 2, axis=2), jnp.repeat(v, 2, axis=2))
    np.testing.assert_allclose(llama.causal_attention(q, k, v), repeated, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"heads": 3}, "width 128 does not divide into 3 heads; choose a width that is a multiple of 3"),
        ({"heads": 128, "kv_heads": 1}, "gives 1 features a head; rotary embedding pairs them up"),
        ({"kv_heads": 3}, "4 heads do not divide into 3 key/value heads"),
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"kv_heads": 0}, "kv-heads is 0; it must be at least 1"),
        ({"sequence": 1020}, "sequence 1020 does not divide over context 4.*multiple of 8"),
        (
            {"data": 2},
            "batch of 1 sequences does not divide over data 2.*multiple of 2",
        ),
        ({"learning_rate": 0.0}, "learning-rate is 0.0; it must be greater than 0"),
    ],
)
def test_wrong_options_get_a_sentence(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainConfig(**sizes)


# All meshes start from the same state and see the same batches; sums are taken in another order, and their
# f32 rounding is fed back through three optimiser steps.
TOLERANCE = 1e-5
MESHES = """
import sys
import jax, numpy as np
from xla_shmem.train import trainer
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.text import Windows

tolerance = float(sys.argv[1])
def losses(data, context):
    config = TrainConfig(steps=4, data=data, context=context, batch=2, sequence=64,
                         width=16, layers=2, heads=4, kv_heads=2, hidden=24)
    devices = jax.devices()[: config.ranks]
    trainer.make_mesh = lambda config: jax.make_mesh((data, context), ("data", "context"), devices=devices,
        axis_types=(jax.sharding.AxisType.Auto,) * 2)
    text = np.frombuffer(b"def f(x):\\n    return x + 1\\n" * 100, np.uint8)
    return np.array([record.loss for record in trainer.train(config, Windows(text, 64, 2, 0))])

want = losses(1, 1)
assert want[-1] < want[0], f"nothing was learnt: {want}"
for mesh in ((1, 4), (2, 2)):
    got = losses(*mesh)
    assert (abs(got - want) <= tolerance * want).all(), f"(data, context) = {mesh}: {got} is not {want}"
"""


def test_training_on_a_mesh_equals_training_on_one_device() -> None:
    pytest.importorskip("optax")
    result = subprocess.run(
        [sys.executable, "-c", MESHES, str(TOLERANCE)],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert result.returncode == 0, result.stderr[-2000:]
