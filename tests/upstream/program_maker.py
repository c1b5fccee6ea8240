"""Makes the programs. Runs under JAX 0.8 to 0.10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from placements import Placement

THRESHOLD = 16 << 20
SMALL = 4 << 10


@dataclass(frozen=True)
class Program:
    """A program. ``lower()`` returns a ``jax.stages.Lowered``, or an object with its ``compile()``."""

    name: str
    lower: Callable[[], Any]


class ProgramMaker:
    """Makes programs for one placement. ``devices`` are all devices of the job, in order of their ids."""

    def __init__(self, devices: Sequence[Any], placement: Placement):
        self.devices = np.array(devices)
        self.count = len(devices)
        self.per_process = placement.devices

    def mapped(
        self, name: str, body: Callable[..., Any], *sizes: int, dtype: Any = jnp.float32, mesh: Mesh | None = None
    ) -> Program:
        """Returns ``body`` under shard_map. Each argument is a vector of ``sizes[i]`` bytes on every device."""
        mesh = self.line() if mesh is None else mesh
        spec = P(mesh.axis_names)

        def lower() -> Any:
            arguments = [
                jax.ShapeDtypeStruct((size * 8 // bits(dtype) * mesh.size,), dtype, sharding=NamedSharding(mesh, spec))
                for size in sizes
            ]
            function = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
            return jax.jit(named(name, function)).lower(*arguments)

        return Program(name, lower)

    def automatic(
        self, name: str, body: Callable[..., Any], out_spec: P, *arguments: tuple[tuple[int, ...], P], mesh: Mesh
    ) -> Program:
        """Returns ``body`` under jit, where the partitioner inserts the collectives."""

        def lower() -> Any:
            shapes = [
                jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
                for shape, spec in arguments
            ]
            return jax.jit(named(name, body), out_shardings=NamedSharding(mesh, out_spec)).lower(*shapes)

        return Program(name, lower)

    def line(self, devices: Sequence[Any] | np.ndarray[Any, Any] | None = None) -> Mesh:
        return Mesh(self.devices if devices is None else np.array(devices), ("x",))

    def grid(self, devices: Sequence[Any] | np.ndarray[Any, Any] | None = None) -> Mesh:
        """Returns a mesh of rows of two devices."""
        return Mesh((self.devices if devices is None else np.array(devices)).reshape(-1, 2), ("a", "b"))

    def processes(self) -> list[list[int]]:
        return [list(range(i, i + self.per_process)) for i in range(0, self.count, self.per_process)]


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function under a name, which XLA uses for the module and its dumps."""

    def call(*arguments: Any) -> Any:
        return function(*arguments)

    call.__name__ = call.__qualname__ = name
    return call


def bits(dtype: Any) -> int:
    """Returns the bits of one element on GPU, where two elements of a 4-bit type share a byte."""
    return 4 if np.dtype(dtype).name in ("int4", "uint4") else 8 * np.dtype(dtype).itemsize


def psum(x: Any) -> Any:
    return lax.psum(x, "x")


def psum_of(groups: list[list[int]]) -> Callable[[Any], Any]:
    return lambda x: lax.psum(x, "x", axis_index_groups=groups)


def permute(pairs: list[tuple[int, int]]) -> Callable[[Any], Any]:
    return lambda x: lax.ppermute(x, "x", pairs)
