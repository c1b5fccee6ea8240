"""Transfers and memory of the decoder with overlapped tensor-parallel matmuls. Its values: test_mesh_equality.py."""

import jax
import jax.numpy as jnp
import pytest

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.step import abstract_state, make_loss

BATCH, SEQUENCE = 2, 32


def job(**fields: object) -> TrainConfig:
    defaults = {"preset": "tiny", "batch": BATCH, "sequence": SEQUENCE, "context": 1, "tensor_matmul": "async"}
    return TrainConfig(**(defaults | fields))


def compiled_gradient(config: TrainConfig) -> str:
    mesh = make_mesh(config.mesh(), jax.devices()[: config.devices])
    state = abstract_state(config, mesh)
    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE), jnp.int32, sharding=sharding.tokens(mesh))
    gradient = jax.jit(jax.value_and_grad(make_loss(config, mesh)))
    return gradient.lower(state.params, state.fp8, tokens, tokens).compile().as_text()


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("parallel_block", [False, True])
def test_a_parallel_block_has_half_the_transfers_and_no_rank_has_all_scores(parallel_block: bool) -> None:
    ranks, vocab = 4, 320  # unlike any other size of the model
    hlo = compiled_gradient(job(tensor=ranks, parallel_block=parallel_block, vocab=vocab))
    rings = 2 if parallel_block else 4  # of a layer; forward and backward are loops over layers
    assert hlo.count(" collective-permute(") == 2 * rings * (ranks - 1)
    assert f"[{BATCH},{SEQUENCE // ranks},{vocab}]" in hlo
    assert f"[{BATCH},{SEQUENCE},{vocab}]" not in hlo
    assert f"[{BATCH},{SEQUENCE},{vocab // ranks}]" not in hlo


def test_a_sequence_that_does_not_divide_into_slices_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sequence 36 does not divide over context 2 x tensor 4: .* multiple of 8"):
        job(sequence=36, context=2, tensor=4)
