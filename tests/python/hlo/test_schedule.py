"""`_core.schedule` against XLA's own count of floating point operations, where products of matrices dominate."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from xla_shmem import _core

M, K, N = 96, 128, 160


def two_layers(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w) @ w.T


def batched(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.einsum("bik,bkj->bij", x.reshape(4, M // 4, K), jnp.broadcast_to(w, (4, K, N)) + 1)


def gradient(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.grad(lambda w: jnp.sum(jnp.square(x @ w)))(w)


def convolved(x: jax.Array, w: jax.Array) -> jax.Array:
    image, kernel = x.reshape(1, M, K, 1), w[:25, :16].reshape(5, 5, 1, 16)
    return jax.lax.conv_general_dilated(image, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@pytest.mark.parametrize("program", [two_layers, batched, gradient, convolved])
def test_flops_are_those_that_xla_counts(program: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
    compiled = jax.jit(program).lower(jnp.ones((M, K)), jnp.ones((K, N))).compile()
    counted = compiled.cost_analysis()["flops"]
    module = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    computations = _core.schedule(module)
    flops = [step["flops"] for computation in computations for step in computation["instructions"]]
    assert None not in flops
    assert sum(flops) == pytest.approx(counted, rel=0.01)
    assert computations[-1]["scheduled"]


def test_bytes_that_are_no_module_are_refused() -> None:
    with pytest.raises(ValueError, match="not a well-formed HloModuleProto"):
        _core.schedule(b"\xff")
