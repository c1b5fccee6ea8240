"""The decoder with overlapped tensor-parallel matmuls equals the decoder on one device; no rank holds all scores."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from xla_shmem.models.config import PRESETS
from xla_shmem.parallel import sharding
from xla_shmem.parallel.mesh import make_mesh
from xla_shmem.parallel.zigzag import zigzag_order
from xla_shmem.train.config import ConfigError, TrainConfig
from xla_shmem.train.step import init_state, make_loss

BATCH, SEQUENCE = 2, 32

# Gradients of the same f32 sums in another order; in bf16 every intermediate is rounded to 2^-9.
TOLERANCE = {"f32": 1e-5, "bf16": 6e-2}


def job(**fields: object) -> TrainConfig:
    defaults = {"preset": "tiny", "batch": BATCH, "sequence": SEQUENCE, "context": 1, "tensor_matmul": "async"}
    return TrainConfig(**(defaults | fields))


def tokens(vocab: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(0).integers(0, vocab, (BATCH, SEQUENCE + 1), dtype=np.int32)
    return drawn[:, :-1], drawn[:, 1:]


def lowered_gradient(config: TrainConfig):
    """Loss and gradients of a job, lowered, and what it is called with."""
    mesh = make_mesh(config.mesh(), jax.devices()[: config.devices])
    state = init_state(config, mesh)
    order = zigzag_order(SEQUENCE, config.context)
    inputs, targets = (jax.device_put(x[:, order], sharding.tokens(mesh)) for x in tokens(config.model().vocab))
    gradient = jax.jit(jax.value_and_grad(make_loss(config, mesh)))
    args = state.params, state.fp8, inputs, targets
    return gradient.lower(*args), args


@functools.cache
def on_one_device(**structure: object):
    lowered, args = lowered_gradient(job(tensor_matmul="sync", **structure))
    return jax.device_get(lowered.compile()(*args))


SEQUENTIAL = {"qk_norm": True}
PARALLEL = {"parallel_block": True}
THREE_AXES = {"fsdp": 2, "context": 2, "tensor": 2}


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("spread", "structure"),
    [
        ({"data": 2, "tensor": 4, "remat": "full"}, SEQUENTIAL),
        ({"context": 2, "tensor": 2}, PARALLEL),
        ({**THREE_AXES, "shard_over_context": True}, PARALLEL),
        ({**THREE_AXES, "attention": "gather", "dtype": "bf16"}, SEQUENTIAL),
    ],
    ids=lambda fields: " ".join(f"{name}={value}" for name, value in fields.items()),
)
def test_loss_and_gradients_equal_those_of_one_device(spread: dict, structure: dict) -> None:
    check(spread, structure)


@pytest.mark.usefixtures("quick_compilation")
def test_scores_from_the_embedding_equal_those_of_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "tiny", dataclasses.replace(PRESETS["tiny"], tied_head=True))
    check({"fsdp": 2, "tensor": 4}, {"layers": 1})


def check(spread: dict, structure: dict) -> None:
    config = job(**spread, **structure)
    lowered, args = lowered_gradient(config)
    loss, gradients = jax.device_get(lowered.compile()(*args))
    expected_loss, expected = on_one_device(**structure)
    tolerance = TOLERANCE[config.dtype]
    assert abs(loss - expected_loss) <= tolerance * expected_loss
    leaves = zip(jax.tree_util.tree_leaves_with_path(gradients), jax.tree.leaves(expected), strict=True)
    for (path, got), want in leaves:
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error <= tolerance, f"{jax.tree_util.keystr(path)}: off by {error} of the largest value"


@pytest.mark.parametrize("parallel_block", [False, True])
def test_a_parallel_block_has_half_the_transfers_and_no_rank_all_scores(parallel_block: bool) -> None:
    ranks = 4
    config = job(tensor=ranks, parallel_block=parallel_block, vocab=320)  # unlike any other size of the model
    lowered, _ = lowered_gradient(config)
    hlo = lowered.compile().as_text()
    rings = 2 if parallel_block else 4  # of a layer; forward and backward are loops over layers
    assert hlo.count(" collective-permute(") == 2 * rings * (ranks - 1)
    vocab = config.model().vocab
    assert f"[{BATCH},{SEQUENCE // ranks},{vocab}]" in hlo
    assert f"[{BATCH},{SEQUENCE},{vocab}]" not in hlo
    assert f"[{BATCH},{SEQUENCE},{vocab // ranks}]" not in hlo


def test_a_sequence_that_does_not_divide_into_slices_says_so() -> None:
    with pytest.raises(ConfigError, match=r"sequence 36 does not divide over context 2 x tensor 4: .* multiple of 8"):
        job(sequence=36, context=2, tensor=4)


def test_fp8_is_refused_before_the_job_starts() -> None:
    with pytest.raises(
        ConfigError, match="tensor-matmul async over tensor 2 does not multiply in FP8; choose tensor-m"
    ):
        job(tensor=2, fp8=True)
