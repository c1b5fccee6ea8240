"""The programs to compile for GPUs: unchanged user code, with shapes for 8 devices.

Each is a function without arguments that returns the function for `jax.jit` and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

DEVICES = 8
RING = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]

Program = tuple[Any, Sequence[jax.ShapeDtypeStruct]]
PROGRAMS: dict[str, Callable[[Sequence[Any]], Program]] = {}


def program(build: Callable[[Sequence[Any]], Program]) -> Callable[[Sequence[Any]], Program]:
    PROGRAMS[build.__name__] = build
    return build


def line(devices: Sequence[Any]) -> Mesh:
    return Mesh(np.array(devices), ("x",))


def on_devices(
    name: str, mesh: Mesh, body: Callable[..., Any], shapes: Sequence[Any], out: Any, **options: Any
) -> Program:
    """`body` under shard_map; `shapes` are (shape, dtype, spec) of the global arguments."""
    specs = tuple(spec for _, _, spec in shapes)
    body.__name__ = name
    mapped = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    arguments = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec)) for shape, dtype, spec in shapes
    ]
    return jax.jit(mapped, **options), arguments


X = ((4096, 1024), jnp.bfloat16, P("x"))
Y = ((4096, 512), jnp.bfloat16, P("x"))
#: 8 MiB a device: more than the all-reduces that jax 0.12.0.1 puts into fusions (fused_programs.py).
Z = ((DEVICES * 4096, 1024), jnp.bfloat16, P("x"))
W = ((1024, 1024), jnp.bfloat16, P())


def overlap(op: Callable[[Any], Any]) -> Callable[..., Any]:
    """A matmul can run beside the op."""
    return lambda x, w: (op(x), x @ w)


def alone(op: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x: op(x * 2) + 1


def in_a_loop(op: Callable[[Any], Any]) -> Callable[..., Any]:
    """Nothing can run beside the op: there is no counter either."""

    def body(x: Any) -> Any:
        def step(x: Any) -> Any:
            rows = op(jnp.tanh(x))
            return jnp.tile(rows, (-(-x.shape[0] // rows.shape[0]), 1))[: x.shape[0]]

        return lax.while_loop(lambda x: x[0, 0] < 1, step, x)

    return body


@program
def permute_overlap(devices: Sequence[Any]) -> Program:
    def body(x: Any, w: Any) -> Any:
        return lax.ppermute(x, "x", RING), x @ w

    return on_devices("permute_overlap", line(devices), body, [X, W], (P("x"), P("x")))


@program
def permute_scan(devices: Sequence[Any]) -> Program:
    """A ring step beside a matmul, as in ring attention."""

    def body(x: Any, w: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, total = carry
            return (lax.ppermute(x, "x", RING), total + x @ w), None

        return lax.scan(step, (x, jnp.zeros((x.shape[0], w.shape[1]), x.dtype)), None, length=DEVICES)[0][1]

    return on_devices("permute_scan", line(devices), body, [X, W], P("x"))


@program
def permutes_combined(devices: Sequence[Any]) -> Program:
    def body(x: Any, y: Any, w: Any) -> Any:
        return lax.ppermute(x, "x", RING), lax.ppermute(y, "x", RING), x @ w

    return on_devices("permutes_combined", line(devices), body, [X, Y, W], (P("x"), P("x"), P("x")))


@program
def permute_alone(devices: Sequence[Any]) -> Program:
    def body(x: Any) -> Any:
        return lax.ppermute(x * 2, "x", RING) + 1

    return on_devices("permute_alone", line(devices), body, [X], P("x"))


@program
def permute_mesh_order(devices: Sequence[Any]) -> Program:
    """The devices of the mesh in reverse order."""

    def body(x: Any, w: Any) -> Any:
        return lax.ppermute(x, "x", RING), x @ w

    return on_devices("permute_mesh_order", line(devices[::-1]), body, [X, W], (P("x"), P("x")))


@program
def collectives_in_a_branch(devices: Sequence[Any]) -> Program:
    def moved(x: Any) -> Any:
        return lax.psum(lax.ppermute(x, "x", RING) * 2, "x")

    def body(flag: Any, x: Any) -> Any:
        return lax.cond(flag[0], moved, lambda x: x + 1, x) * 3

    shapes = [((1,), jnp.bool_, P()), X]
    return on_devices("collectives_in_a_branch", line(devices), body, shapes, P("x"))


@program
def permutes_both_ways(devices: Sequence[Any]) -> Program:
    """Two transfers at once without compute: they can only overlap with each other."""

    def body(x: Any, y: Any) -> Any:
        return lax.ppermute(x, "x", RING), lax.ppermute(y, "x", [(b, a) for a, b in RING])

    return on_devices("permutes_both_ways", line(devices), body, [X, Y], (P("x"), P("x")))


@program
def psum_overlap(devices: Sequence[Any]) -> Program:
    def body(x: Any, w: Any) -> Any:
        return lax.psum(x, "x"), x @ w

    return on_devices("psum_overlap", line(devices), body, [Z, W], (P(), P("x")))


@program
def psum_scan(devices: Sequence[Any]) -> Program:
    def body(x: Any, w: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, total = carry
            return (lax.psum(x, "x") * jnp.bfloat16(0.125), total + x @ w), None

        return lax.scan(step, (x, jnp.zeros((x.shape[0], w.shape[1]), x.dtype)), None, length=4)[0][1]

    return on_devices("psum_scan", line(devices), body, [Z, W], P("x"))


@program
def psums_combined(devices: Sequence[Any]) -> Program:
    """Several gradients: XLA combines them into one all-reduce."""

    def body(x: Any, y: Any, w: Any) -> Any:
        return lax.psum(x, "x"), lax.psum(y, "x"), x @ w

    return on_devices("psums_combined", line(devices), body, [X, Y, W], (P(), P(), P("x")))


@program
def psum_alone(devices: Sequence[Any]) -> Program:
    def body(x: Any) -> Any:
        return lax.psum(x * 2, "x") + 1

    return on_devices("psum_alone", line(devices), body, [Z], P())


@program
def psum_groups(devices: Sequence[Any]) -> Program:
    """Sums over one axis of a 2 x 4 mesh."""
    mesh = Mesh(np.array(devices).reshape(2, 4), ("a", "b"))

    def body(x: Any, w: Any) -> Any:
        return lax.psum(x, "b"), x @ w

    x = ((DEVICES * 3072, 1024), jnp.float32, P(("a", "b")))
    return on_devices("psum_groups", mesh, body, [x, ((1024, 1024), jnp.float32, P())], (P("a"), P(("a", "b"))))


@program
def slices_moved(devices: Sequence[Any]) -> Program:
    """Slices at constant places of larger arrays."""

    def body(x: Any, y: Any) -> Any:
        return lax.ppermute(x[:256], "x", RING), lax.psum(y[:256], "x")

    y = ((4096, 1024), jnp.float32, P("x"))
    return on_devices("slices_moved", line(devices), body, [y, y], (P("x"), P()))


@program
def stacks_moved(devices: Sequence[Any]) -> Program:
    """Each step of a loop reads a slice of a stack, permutes and sums it, and writes the results into other stacks."""

    def body(stack: Any, w: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return None, (lax.ppermute(x, "x", RING), lax.psum(x, "x"), x @ w)

        return lax.scan(step, None, stack)[1]

    stack = ((4, 4096, 1024), jnp.float32, P(None, "x"))
    w = ((1024, 1024), jnp.float32, P())
    return on_devices("stacks_moved", line(devices), body, [stack, w], (P(None, "x"), P(), P(None, "x")))


@program
def psum_large(devices: Sequence[Any]) -> Program:
    """32 MiB a device: over the threshold. The permute beside it has no threshold."""

    def body(x: Any, y: Any, w: Any) -> Any:
        return lax.psum(x, "x"), lax.ppermute(y, "x", RING), y @ w

    x = ((DEVICES * 16384, 1024), jnp.bfloat16, P("x"))
    return on_devices("psum_large", line(devices), body, [x, X, W], (P(), P("x"), P("x")))


@program
def psum_large_only(devices: Sequence[Any]) -> Program:
    def body(x: Any, w: Any) -> Any:
        return lax.psum(x, "x"), x @ w

    x = ((DEVICES * 16384, 1024), jnp.bfloat16, P("x"))
    return on_devices("psum_large_only", line(devices), body, [x, W], (P(), P("x")))


@program
def partitioned(devices: Sequence[Any]) -> Program:
    """No collective in the user's code: the partitioner inserts the all-reduce."""
    mesh = line(devices)

    def partitioned(x: Any, w: Any, y: Any, v: Any) -> Any:
        return x @ w, y @ v

    def like(shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, P(*spec)))

    arguments = [like((4096, 1024), None, "x"), like((1024, 1024), "x"), like((4096, 1024)), like((1024, 1024))]
    replicated = NamedSharding(mesh, P())
    return jax.jit(partitioned, out_shardings=(replicated, replicated)), arguments


@program
def no_collective(devices: Sequence[Any]) -> Program:
    def body(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    return on_devices("no_collective", line(devices), body, [X, W], P("x"))


@program
def psum_donated(devices: Sequence[Any]) -> Program:
    """The input is donated to the result after a matmul has read it."""

    def body(x: Any, w: Any) -> Any:
        return lax.psum(x, "x"), x @ w

    x = ((4096, 1024), jnp.bfloat16, P())
    return on_devices("psum_donated", line(devices), body, [x, W], (P(), P()), donate_argnums=(0,))


@program
def permute_donated(devices: Sequence[Any]) -> Program:
    """The same for a permute, whose source must not be overwritten before it is sent."""

    def body(x: Any, w: Any) -> Any:
        return lax.ppermute(x, "x", RING), x @ w

    return on_devices("permute_donated", line(devices), body, [X, W], (P("x"), P("x")), donate_argnums=(0,))


@program
def psum_donated_only(devices: Sequence[Any]) -> Program:
    """Nothing else reads the input, so stock XLA sums in place."""

    def body(x: Any, y: Any, w: Any) -> Any:
        return lax.psum(x, "x"), y @ w

    x = ((4096, 1024), jnp.bfloat16, P())
    return on_devices("psum_donated_only", line(devices), body, [x, X, W], (P(), P("x")), donate_argnums=(0,))
