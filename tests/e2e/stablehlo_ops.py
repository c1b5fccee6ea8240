"""StableHLO collectives without a function in JAX, for calls under `shard_map`.

Groups contain device positions in the module, 0 to n-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo
from jax.extend.core import Primitive

Groups = Sequence[Sequence[int]]
_Build = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]

_collective = Primitive("stablehlo_collective")
_collective.multiple_results = True


@_collective.def_abstract_eval
def _abstract(*operands: Any, build: _Build, results: Any) -> Any:
    return [jax.core.ShapedArray(shape, dtype) for shape, dtype in results]


def _lower(context: Any, *operands: Any, build: _Build, results: Any) -> Any:
    types = [ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype)) for aval in context.avals_out]
    return build(types, operands)


mlir.register_lowering(_collective, _lower)


def _emit(build: _Build, operands: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    results = tuple((tuple(shape), operand.dtype) for shape, operand in zip(shapes, operands, strict=True))
    return _collective.bind(*operands, build=build, results=results)


def _groups(groups: Groups) -> Any:
    # Rows of one length: shorter groups are padded with -1.
    longest = max(len(group) for group in groups)
    return ir.DenseIntElementsAttr.get(
        np.array([[*group, *[-1] * (longest - len(group))] for group in groups], np.int64)
    )


def _channel() -> Any:
    return hlo.ChannelHandle.get(1, 1)


def _reducer(op: Any, name: str, type_: Any) -> None:
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(type_).element_type)
    block = op.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        hlo.ReturnOp([getattr(hlo, f"{name}Op")(*block.arguments).result])


def all_reduce(array: Any, groups: Groups, reduction: str) -> Any:
    """`reduction` is the name of a StableHLO op: "Xor", "Maximum"."""

    def build(types: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        op = hlo.AllReduceOp(types, operands, _groups(groups), channel_handle=_channel(), use_global_device_ids=True)
        _reducer(op, reduction, types[0])
        return op.results

    return _emit(build, [array], [array.shape])[0]


def reduce_scatter(array: Any, groups: Groups, reduction: str, dimension: int = 0) -> Any:
    """Like `all_reduce`; the result is this device's part along `dimension`."""

    def build(types: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        op = hlo.ReduceScatterOp(
            types[0], operands[0], dimension, _groups(groups), channel_handle=_channel(), use_global_device_ids=True
        )
        _reducer(op, reduction, types[0])
        return op.results

    shape = list(array.shape)
    shape[dimension] //= len(groups[0])
    return _emit(build, [array], [tuple(shape)])[0]


def broadcast(array: Any, groups: Groups) -> Any:
    """From the first of each group to the others; devices in no group get zeros."""

    def build(types: Sequence[Any], operands: Sequence[Any]) -> Sequence[Any]:
        # Without its class, which takes one operand before jax 0.12 and several since.
        attributes = {"replica_groups": _groups(groups), "channel_handle": _channel()}
        return ir.Operation.create(
            "stablehlo.collective_broadcast", results=types, operands=operands, attributes=attributes
        ).results

    return _emit(build, [array], [array.shape])[0]
