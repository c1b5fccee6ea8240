"""A rank of a JAX job: its devices, arrays on them, and the collectives of compiled programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gpu_check import exchange

_OURS = re.compile(r'custom_call_target="xla_shmem\.(\w+)"')
_LEFT = re.compile(r" (?:all-reduce|collective-permute|all-gather|reduce-scatter|all-to-all)(?:-start)?\(")


class JaxJob:
    """The devices of the job, as many in each process."""

    def __init__(self) -> None:
        if exchange.ranks() > 1:
            jax.distributed.initialize()
        self.devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
        self.n, self.rank = len(self.devices), jax.process_index()
        wanted = os.environ["JAX_PLATFORMS"].split(",")[0]
        if wanted not in (self.devices[0].platform, {"gpu": "cuda"}.get(self.devices[0].platform)):
            raise RuntimeError(f"JAX runs on {self.devices[0].platform}, not on {wanted}")
        expected = exchange.ranks() * int(os.environ.get("GPU_CHECK_DEVICES", "1"))
        if self.n != expected:
            raise RuntimeError(f"JAX has {self.n} devices in a job of {expected}")
        self.mesh = self.mesh_of((self.n,), ("x",))
        self.ring = [(i, (i + 1) % self.n) for i in range(self.n)]

    def mesh_of(self, shape: Sequence[int], axes: Sequence[str]) -> Mesh:
        """A mesh of all devices."""
        return Mesh(np.array(self.devices).reshape(shape), tuple(axes))

    def put(self, values: np.ndarray, *spec: Any, mesh: Mesh | None = None) -> jax.Array:
        """Puts `values`, which are equal on all ranks, on a mesh."""
        sharding = NamedSharding(self.mesh if mesh is None else mesh, PartitionSpec(*spec))
        return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])

    def program(self, body: Callable[..., Any], ins: Any, outs: Any, mesh: Mesh | None = None, **options: Any) -> Any:
        """`jit(shard_map(body))`."""
        mesh = self.mesh if mesh is None else mesh
        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False), **options)


def collectives(compiled: Any) -> tuple[list[str], list[str]]:
    """Returns xla-shmem's calls in a compiled program, and the collectives that XLA runs on NCCL."""
    text = compiled.as_text()
    return _OURS.findall(text), [found.strip(" (") for found in _LEFT.findall(text)]
