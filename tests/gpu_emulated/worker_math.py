"""Evaluates functions of our device math library on an emulated GPU; prints their errors in ulp, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

POSITIVE = np.concatenate([np.geomspace(1e-6, 1e6, 61), [0.5, 1.0, 1.0 + 1e-7]])
ALL = np.concatenate([-np.geomspace(1e-6, 60, 61), np.geomspace(1e-6, 60, 61)])
UNIT = np.linspace(-0.999, 0.999, 61)

#: The function of JAX, its reference in double, and where it is evaluated.
FUNCTIONS: dict[str, tuple[Callable[..., jax.Array], Callable[..., float], tuple[np.ndarray, ...]]] = {
    "acos": (jnp.arccos, math.acos, (UNIT,)),
    "acosh": (jnp.arccosh, math.acosh, (1 + POSITIVE,)),
    "asin": (jnp.arcsin, math.asin, (UNIT,)),
    "asinh": (jnp.arcsinh, math.asinh, (ALL,)),
    "atan": (jnp.arctan, math.atan, (ALL,)),
    "atan2": (jnp.arctan2, math.atan2, (ALL, ALL[::-1])),
    "atanh": (jnp.arctanh, math.atanh, (UNIT,)),
    "cbrt": (jnp.cbrt, math.cbrt, (ALL,)),
    "ceil": (jnp.ceil, math.ceil, (ALL,)),
    "cos": (jnp.cos, math.cos, (ALL,)),
    "cosh": (jnp.cosh, math.cosh, (ALL,)),
    "erf": (lax.erf, math.erf, (ALL,)),
    "exp": (jnp.exp, math.exp, (ALL,)),
    "expm1": (jnp.expm1, math.expm1, (ALL,)),
    "floor": (jnp.floor, math.floor, (ALL,)),
    "fmod": (lax.rem, math.fmod, (ALL, POSITIVE[: len(ALL) // 2].repeat(2))),
    "hypot": (jnp.hypot, math.hypot, (ALL, ALL[::-1])),
    "log": (jnp.log, math.log, (POSITIVE,)),
    "log1p": (jnp.log1p, math.log1p, (POSITIVE,)),
    "pow": (jnp.power, math.pow, (POSITIVE[:60], ALL[::2][:60] / 20)),
    "round": (jnp.round, round, (ALL,)),
    "rsqrt": (lax.rsqrt, lambda x: 1 / math.sqrt(x), (POSITIVE,)),
    "sin": (jnp.sin, math.sin, (ALL,)),
    "sinh": (jnp.sinh, math.sinh, (ALL,)),
    "sqrt": (jnp.sqrt, math.sqrt, (POSITIVE,)),
    "tan": (jnp.tan, math.tan, (ALL,)),
    "tanh": (jnp.tanh, math.tanh, (ALL,)),
}


def ulps(name: str, dtype: type) -> float:
    """The largest error of a function, in units of the last digit of the exact value."""
    function, reference, arguments = FUNCTIONS[name]
    rounded = [np.asarray(argument, dtype) for argument in arguments]
    device = jax.devices("gpu")[0]
    got = np.asarray(jax.jit(function)(*(jax.device_put(values, device) for values in rounded)))
    want = np.array([reference(*map(float, values)) for values in zip(*rounded, strict=True)])
    assert got.dtype == dtype
    return float((np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(want).astype(dtype))).max())


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    for dtype in (np.float32, np.float64):
        for name in FUNCTIONS:
            print(json.dumps({"name": f"{name} {np.dtype(dtype).name}", "ulps": ulps(name, dtype)}), flush=True)


if __name__ == "__main__":
    main()
