"""Runs single-device programs on an emulated GPU and on the CPU; prints a line of JSON for each, with the difference.

One line: {"name", "error": largest difference in units of the tolerance, "message"}. The programs cover the kernels
that XLA:GPU emits: element-wise, reductions, transposes, scans, sorts, gathers and scatters, random bits, narrow types,
control flow, matmuls through cuBLAS, gradients.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Program = tuple[Callable[..., jax.Array], tuple[np.ndarray, ...]]

_RANDOM = np.random.default_rng(7)
X = _RANDOM.random((64, 96), np.float32)
Y = _RANDOM.standard_normal((64, 96)).astype(np.float32)
N = np.arange(64 * 96, dtype=np.int32).reshape(64, 96)
S = _RANDOM.integers(-(2**31), 2**31, (64, 96), np.int64).astype(np.int32)
D = _RANDOM.standard_normal((16, 48))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3e38, 65520.0, 0.5, 2.5, -3.5], np.float32)
# XLA:CPU takes denormals for zeros.
FINE = SPECIAL[~((SPECIAL != 0) & (np.abs(SPECIAL) < 1e-37))]
# A GPU keeps f32 between two operations on bf16, so the programs have one.
B, H = Y.astype(jnp.bfloat16), Y.astype(np.float16)

PROGRAMS: dict[str, Program] = {
    "multiply and add": (lambda v: v * 2 + 1, (X,)),
    "transpose": (lambda v: v.T + 1, (X,)),
    "transpose of three dimensions": (lambda v: jnp.transpose(v.reshape(8, 16, 48), (2, 0, 1)) * 2, (X,)),
    "sum": (lambda v: v.sum(), (X,)),
    "sums of rows": (lambda v: v.sum(1), (X,)),
    "sums of columns": (lambda v: v.sum(0), (X,)),
    "sum of many": (lambda v: jnp.broadcast_to(v, (40, 64, 96)).sum((0, 2)), (X,)),
    "minimum and maximum": (lambda v: jnp.stack([v.min(1), v.max(1)]), (Y,)),
    "maximum with NaN": (lambda v: jnp.stack([v.max(), v.min(), jnp.nanmax(v)]), (SPECIAL,)),
    "softmax": (lambda v: jax.nn.softmax(v), (Y,)),
    "log-softmax of long rows": (lambda v: jax.nn.log_softmax(v.reshape(4, -1)), (Y,)),
    "layer norm": (lambda v: (v - v.mean(1, keepdims=True)) * lax.rsqrt(v.var(1, keepdims=True) + 1e-5), (X,)),
    "gelu": (lambda v: jax.nn.gelu(v) + jnp.tanh(v), (Y,)),
    "iota and select": (lambda v: jnp.where(jnp.arange(96)[None] > 40, 1.0, v), (X,)),
    "argmax": (lambda v: jnp.argmax(v, 1), (X,)),
    "cumulative sum": (lambda v: jnp.cumsum(v, 1), (X,)),
    "sort": (lambda v: jnp.sort(v, 1), (Y,)),
    "sort with keys": (lambda v, k: lax.sort((k, v), num_keys=1, dimension=1)[1], (X, S)),
    "top k": (lambda v: lax.top_k(v, 5)[0], (Y,)),
    "gather": (lambda v, j: v[j[:, 0] % 64], (X, N)),
    "scatter": (lambda v, j: v.at[j[:, 0] % 7].add(1.0), (X, N)),
    "scatter of integers": (lambda v, j: jnp.zeros(7, jnp.int32).at[j.ravel() % 7].add(1), (X, N)),
    "dynamic update": (lambda v: lax.dynamic_update_slice(v, v[:4, :4] * 2, (3, 5)), (X,)),
    "dynamic slice": (lambda v, j: lax.dynamic_slice(v, (j[0, 3], j[0, 7]), (8, 8)), (X, N)),
    "pad": (lambda v: jnp.pad(v, 3), (X,)),
    "reverse and roll": (lambda v: jnp.roll(v[::-1], 5, 1), (X,)),
    "concatenate": (lambda v: jnp.concatenate([v, v * 2], 1), (X,)),
    "reduce window": (lambda v: lax.reduce_window(v, -jnp.inf, lax.max, (3, 5), (1, 2), "SAME"), (X,)),
    "loop": (lambda v: lax.fori_loop(0, 5, lambda k, c: c * 2 + k, v), (X,)),
    "scan": (lambda v: lax.scan(lambda c, row: (c * 0.5 + row, c.sum()), v[0], v)[1], (X,)),
    "branch": (lambda v: lax.cond(v[0, 0] > 0.5, lambda: v, lambda: -v), (X,)),
    "any": (lambda v: (v > 0.999).any(1), (X,)),
    "power": (lambda v: v**2.5, (X,)),
    "random normal": (lambda v: jax.random.normal(jax.random.key(3), (64, 64)) + v[:, :64], (X,)),
    "random bits": (lambda v: jax.random.bits(jax.random.key(3), (1000,)) ^ v[0, 0].astype(jnp.uint32), (X,)),
    "matmul": (lambda v: v @ v.T, (X,)),
    "matmul, bias and relu": (lambda v: jax.nn.relu(v @ v.T + v[:, 0]), (Y,)),
    "bf16": (lambda v: v * v, (B,)),
    "bf16 sum": (lambda v: v.sum(1, dtype=jnp.float32), (B,)),
    "f16": (lambda v: v * v, (H,)),
    "f16 sum": (lambda v: v.sum(1, dtype=jnp.float32), (H,)),
    "narrow floats of special values": (
        lambda v: jnp.stack([v.astype(jnp.bfloat16).astype(jnp.float32), v.astype(jnp.float16).astype(jnp.float32)]),
        (SPECIAL,),
    ),
    "f64": (lambda v: jnp.exp(v) / (1 + v * v) + v.sum(), (D,)),
    "complex": (lambda v: jnp.abs(lax.complex(v, 2 * v) * lax.complex(v, -v)), (Y,)),
    "integer arithmetic": (lambda v: (v // 3) % 5 + (v << 2) ^ 7, (N,)),
    "division of negative integers": (lambda v: lax.div(v, jnp.int32(7)) + lax.rem(v, jnp.int32(-11)), (S,)),
    "products of integers wrap": (lambda v: v * v + (v >> 3), (S,)),
    "shifts by the width": (lambda v: lax.shift_left(v, v & 63) + lax.shift_right_logical(v, v & 63), (N,)),
    "int8": (lambda v: v.astype(jnp.int8) + jnp.int8(1), (N,)),
    "int16": (lambda v: v.astype(jnp.int16) * jnp.int16(3), (N,)),
    "int64": (lambda v: (v.astype(jnp.int64) * 1234567).sum(1), (S,)),
    "bits": (lambda v: lax.population_count(v) + lax.clz(v), (S,)),
    "to integers": (lambda v: (v * 1e3).astype(jnp.int32), (Y,)),
    "special values to integers": (lambda v: v.astype(jnp.int32), (SPECIAL,)),
    "rounding": (lambda v: jnp.stack([jnp.round(v), jnp.floor(v), jnp.ceil(v), jnp.trunc(v)]), (FINE,)),
    "comparisons with NaN": (lambda v: jnp.stack([v < 1, v >= 1, v == v, v != 1]), (SPECIAL,)),
    "gradient of a matmul": (lambda v: jax.grad(lambda w: jax.nn.relu(w @ w.T).sum())(v), (X,)),
    "gradient of an embedding": (
        lambda v, j: jax.grad(lambda w: (jnp.take(w, j[:, 0] % 64, axis=0) ** 2).sum())(v),
        (X, N),
    ),
    "gradient of softmax": (lambda v: jax.grad(lambda w: (jax.nn.softmax(w) ** 2).sum())(v), (Y,)),
}

# XLA:CPU and XLA:GPU add in another order and approximate functions differently: some units of f32's last digit, of a
# sum of up to 6144 values.
RELATIVE, ABSOLUTE = 2e-5, 2e-5


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference in units of the tolerance; infinite if types, shapes or special values differ."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return float("inf")
    if got.dtype.kind in "iub":
        return 0.0 if np.array_equal(got, want) else float("inf")
    if got.dtype.kind == "V":  # bf16
        got, want = got.astype(np.float32), want.astype(np.float32)
    special = ~np.isfinite(want)
    if not np.array_equal(got[special], want[special], equal_nan=True):
        return float("inf")
    error = np.abs(got[~special] - want[~special]) / (ABSOLUTE + RELATIVE * np.abs(want[~special]))
    return float(error.max(initial=0.0))


def run(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Results on the GPU and on the CPU."""
    function, arguments = program
    results = []
    for device in (jax.devices("gpu")[0], jax.devices("cpu")[0]):
        result = jax.jit(function)(*(jax.device_put(argument, device) for argument in arguments))
        assert result.devices() == {device}
        results.append(np.asarray(result))
    return results[0], results[1]


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    for name, program in PROGRAMS.items():
        try:
            error, message = difference(*run(program)), ""
        except Exception as failure:
            error, message = float("inf"), str(failure)
        print(json.dumps({"name": name, "error": error, "message": message}), flush=True)


if __name__ == "__main__":
    main()
