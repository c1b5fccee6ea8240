"""Modules that JAX does not generate: replicas instead of partitions, and all-reduces of several operands.

They are compiled from StableHLO. In collectives without a channel the groups are numbers of replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir
from placements import Placement
from program_maker import SMALL, THRESHOLD, Program

_ADD = """({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %sum = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %sum : tensor<f32>
  })"""


@dataclass(frozen=True)
class Lowered:
    """A StableHLO module, with the ``compile()`` of ``jax.stages.Lowered``."""

    text: str
    devices: np.ndarray[Any, Any]  # replicas x partitions

    def compile(self) -> None:
        replicas, partitions = self.devices.shape
        options = compiler.get_compile_options(replicas, partitions, np.vectorize(lambda d: d.id)(self.devices))
        with mlir.make_ir_context():
            module = ir.Module.parse(self.text)
            compiler.backend_compile_and_load(
                self.devices.flat[0].client,
                module,
                xla_client.DeviceList(tuple(self.devices.flat)),
                options,
                [],
            )


def replica_programs(devices: Sequence[Any], placement: Placement) -> Iterator[Program]:
    everything = np.array(devices)
    n, k = len(everything), placement.devices
    replicas = everything.reshape(n, 1)
    processes = [list(range(i, i + k)) for i in range(0, n, k)]
    across = [list(range(i, n, k)) for i in range(k)]

    def program(name: str, operation: str, sizes: Sequence[int], grid: np.ndarray[Any, Any] = replicas) -> Program:
        return Program(name, lambda: Lowered(_module(name, operation, sizes, grid), grid))

    for name, groups in (("all", [list(range(n))]), ("no_groups", []), ("per_process", processes), ("across", across)):
        for label, size in (("small", SMALL), ("at", THRESHOLD)):
            yield program(f"replicas_{name}_{label}", _all_reduce(groups, [size]), [size])
    for label, last in (("below", 4), ("at", 8), ("above", 12)):
        sizes = [THRESHOLD - 8, last - 4, 4] if last > 4 else [THRESHOLD - 8, 4]
        yield program(f"replicas_tuple_{label}", _all_reduce([list(range(n))], sizes), sizes)
    for name, pairs in (
        ("ring", [(i, (i + 1) % n) for i in range(n)]),
        ("ring_in_process", [(p[i], p[(i + 1) % k]) for p in processes for i in range(k)]),
    ):
        yield program(f"replicas_permute_{name}", _permute(pairs, SMALL), [SMALL])
    # Two replicas of a partitioned program. Replica 1 begins at device n / 2.
    halves = everything.reshape(2, n // 2)
    yield program("replicas_of_partitions", _all_reduce([[0, 1]], [SMALL]), [SMALL], halves)
    yield program("replicas_of_partitions_permute", _permute([(0, 1), (1, 0)], SMALL), [SMALL], halves)


def _type(size: int) -> str:
    return f"tensor<{size // 4}xf32>"


def _all_reduce(groups: list[list[int]], sizes: Sequence[int]) -> str:
    operands = ", ".join(f"%arg{i}" for i in range(len(sizes)))
    types = ", ".join(map(_type, sizes))
    shape = f"{len(groups)}x{len(groups[0]) if groups else 0}"
    value = f"dense<{groups}>" if groups else "dense<>"
    return (
        f'"stablehlo.all_reduce"({operands}) <{{replica_groups = {value} : tensor<{shape}xi64>}}> {_ADD} '
        f": ({types}) -> ({types})"
    )


def _permute(pairs: list[tuple[int, int]], size: int) -> str:
    listed = str([list(pair) for pair in pairs])
    return (
        f'"stablehlo.collective_permute"(%arg0) <{{source_target_pairs = dense<{listed}> : '
        f"tensor<{len(pairs)}x2xi64>}}> : ({_type(size)}) -> {_type(size)}"
    )


def _module(name: str, operation: str, sizes: Sequence[int], grid: np.ndarray[Any, Any]) -> str:
    arguments = ", ".join(f"%arg{i}: {_type(size)}" for i, size in enumerate(sizes))
    types = ", ".join(map(_type, sizes))
    results = ", ".join(f"%0#{i}" for i in range(len(sizes))) if len(sizes) > 1 else "%0"
    count = f":{len(sizes)}" if len(sizes) > 1 else ""
    replicas, partitions = grid.shape
    return f"""module @jit_{name} attributes {{mhlo.num_partitions = {partitions} : i32,
    mhlo.num_replicas = {replicas} : i32}} {{
  func.func public @main({arguments}) -> ({types}) {{
    %0{count} = {operation}
    return {results} : {types}
  }}
}}
"""
