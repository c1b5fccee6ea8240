"""Recomputation and repeated transfers under each remat policy, counted in the program before compilation."""

import jax
import jax.numpy as jnp
import pytest

from long_context.parallel import sharding
from long_context.parallel.mesh import make_mesh
from long_context.train.config import TrainConfig
from long_context.train.step import abstract_state, make_loss

RING, SEQUENCE = 4, 32


def transfers(attention: str, remat: str) -> dict[str, int]:
    """Counts permutes and gathers over the sequence in loss and gradients; forward and backward are one loop each."""
    config = TrainConfig(preset="tiny", sequence=SEQUENCE, context=RING, attention=attention, remat=remat)
    mesh = make_mesh(config.mesh(), jax.devices()[:RING])
    state = abstract_state(config, mesh)
    tokens = jax.ShapeDtypeStruct((1, SEQUENCE), jnp.int32, sharding=sharding.tokens(mesh))
    gradient = jax.jit(jax.value_and_grad(make_loss(config, mesh)))
    program = gradient.lower(state.params, state.fp8, tokens, tokens).as_text()
    names = ("collective_permute", "all_gather", "reduce_scatter")
    counts = {name: program.count(f'"stablehlo.{name}"') for name in names}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("remat", ["none", "attention"])
def test_a_kept_attention_is_not_sent_again(remat: str) -> None:
    assert transfers("ring", remat) == {"collective_permute": 3 * (RING - 1)}
    assert transfers("gather", remat) == {"all_gather": 2, "reduce_scatter": 1}


@pytest.mark.parametrize("remat", ["dots", "full"])
def test_an_attention_that_is_not_kept_repeats_the_transfers_of_its_forward(remat: str) -> None:
    assert transfers("ring", remat) == {"collective_permute": 4 * (RING - 1)}
    assert transfers("gather", remat) == {"all_gather": 3, "reduce_scatter": 1}
