"""Programs with small all-reduces, which jax 0.12.0.1 puts into fusions; the form of each is that of `programs.py`.

It runs them by kernels of its own on GPUs of compute capability 9.0 and later with NVLinks: one-shot up to 2 MiB
divided by the size of the group, two-shot up to 32 MiB divided by it; f32, f64, bf16, s32 and predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from programs import DEVICES, Program, W, in_a_loop, line, on_devices

#: 64 KiB, and 2 MiB a device.
ONE_SHOT = ((DEVICES * 64, 256), jnp.float32, P("x"))
TWO_SHOT = ((DEVICES * 512, 1024), jnp.float32, P("x"))
FUSED: dict[str, Callable[[Sequence[Any]], Program]] = {}
#: How XLA runs the all-reduces of each, if it fuses them.
KERNELS: dict[str, list[str]] = {}


def _fused(*kernels: str) -> Callable[[Callable[[str, Sequence[Any]], Program]], None]:
    def add(build: Callable[[str, Sequence[Any]], Program]) -> None:
        name = build.__name__
        FUSED[name] = lambda devices: build(name, devices)
        KERNELS[name] = list(kernels)

    return add


@_fused("one-shot")
def fused_one_shot(name: str, devices: Sequence[Any]) -> Program:
    return on_devices(name, line(devices), lambda x: lax.psum(x * 2, "x") + 1, [ONE_SHOT], P())


@_fused("two-shot")
def fused_two_shot(name: str, devices: Sequence[Any]) -> Program:
    return on_devices(name, line(devices), lambda x: lax.psum(x * 2, "x") + 1, [TWO_SHOT], P())


@_fused("two-shot")
def fused_overlap(name: str, devices: Sequence[Any]) -> Program:
    """A matmul could run beside the sum."""
    options = {"compiler_options": {"xla_gpu_enable_latency_hiding_scheduler": True}}
    shapes = [TWO_SHOT, ((4096, 1024), jnp.bfloat16, P("x")), W]
    return on_devices(name, line(devices), lambda x, y, w: (lax.psum(x, "x"), y @ w), shapes, (P(), P("x")), **options)


@_fused("one-shot")
def fused_in_a_loop(name: str, devices: Sequence[Any]) -> Program:
    return on_devices(name, line(devices), in_a_loop(lambda x: lax.psum(x, "x")), [ONE_SHOT], P("x"))


@_fused("one-shot")
def fused_in_a_branch(name: str, devices: Sequence[Any]) -> Program:
    def body(flag: Any, x: Any) -> Any:
        return lax.cond(flag[0], lambda x: lax.psum(x * 2, "x"), lambda x: x + 1, x) * 3

    return on_devices(name, line(devices), body, [((1,), jnp.bool_, P()), ONE_SHOT], P("x"))


@_fused("one-shot")
def fused_in_groups(name: str, devices: Sequence[Any]) -> Program:
    """Sums over one axis of a 2 x 4 mesh."""
    mesh = Mesh(np.array(devices).reshape(2, 4), ("a", "b"))
    x = ((DEVICES * 64, 256), jnp.float32, P(("a", "b")))
    return on_devices(name, mesh, lambda x: lax.psum(x * 2, "b"), [x], P("a"))


@_fused("one-shot")
def fused_donated(name: str, devices: Sequence[Any]) -> Program:
    return on_devices(name, line(devices), lambda x: lax.psum(x, "x"), [ONE_SHOT], P("x"), donate_argnums=(0,))


@_fused("one-shot", "one-shot", "one-shot", "one-shot")
def fused_types(name: str, devices: Sequence[Any]) -> Program:
    """Reductions of other types; XLA combines no two of them."""

    def body(b: Any, s: Any, p: Any, f: Any) -> Any:
        return lax.psum(b, "x"), lax.pmin(s, "x"), lax.pmax(p, "x"), lax.pmax(f, "x")

    types = (jnp.bfloat16, jnp.int32, jnp.bool_, jnp.float32)
    return on_devices(name, line(devices), body, [((DEVICES * 8, 16), dtype, P("x")) for dtype in types], P())


def release_fuses() -> bool:
    """Whether this release of jax puts these all-reduces into fusions."""
    return tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12)
