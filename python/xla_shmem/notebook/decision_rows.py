"""One collective as a typed row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from xla_shmem import _core


@dataclass(frozen=True)
class Decision:
    """One collective of a compiled module, and who carries it. A start/done pair is one collective.

    Attributes:
      module: name of the module.
      name: HLO name of the instruction; of a pair, of its start.
      op: ``"all-reduce"``, ``"collective-permute"``, …; without ``-start``.
      shape: of the result on one device, as in HLO: ``"f32[8,1024]"``, ``"(f32[8], bf16[4])"``.
      dtype: element type, ``"f32"``; ``"f32,bf16"`` for a combined collective of two types.
      bytes: of the result on one device; parts of a combined collective are summed.
      groups: device ids of each group; empty for a permute, and if the module does not say.
      pairs: (source, target) device ids of a permute; empty for other ops, and if the module does not say.
      num_groups: number of groups; of a permute, of sets of devices that its pairs connect. 0 if unknown.
      group_size: devices of the largest group; 0 if unknown.
      backend: the decision of the rules.
      lowered: what runs it: the decision, unless the transport vetoed it.
      veto: why a decision for NVSHMEM is not carried out; None if there is no veto.
      rule: name of the rule that decided; ``"stock"`` if the module was compiled without xla-shmem.
      reason: the decision in a sentence, with the numbers.
      model: a sentence if the cost model expects the default backend to be faster; else None.
      computation: name of the computation that holds it.
      in_loop: whether it runs inside a loop.
      executions: in one run of the module; None if a trip count is unknown or a branch decides.
      source_file: file of the program; None if the module does not say.
      source_line: line in it, from 1; 0 if the module does not say.
      reduction: ``"sum"``, ``"prod"``, ``"min"``, ``"max"``, ``"and"``, ``"or"`` or ``"none"`` for another computation;
        ``""`` for an op without one.
      part_of: name of the divided collective that it is a part of; None for all others.
      way: of a module for GPUs, how the collective runs: ``"NCCL"``, ``"NVSHMEM"``, ``"one-sided"``, … (inspect.ways);
        None on CPU.
      way_reason: what decides the way; None on CPU, ``""`` if nothing does but the default.
      chosen_way: the word of ``XLA_SHMEM_BACKENDS`` for a way of XLA's that the pass has chosen; else None.
      kernel: ``"one-shot"``, ``"two-shot"`` or ``"own"``: by a kernel of XLA:GPU's; else None.
      mode: ``"symmetric"``, ``"peer"`` or ``"private"`` memory, as XLA:GPU wrote it; else None.
      is_sync: whether XLA:GPU runs it on the stream of the computation.
      operand_space: memory space of operand 0; 0 is the default one.
      result_space: memory space of the first result.
    """

    module: str
    name: str
    op: str
    shape: str
    dtype: str
    bytes: int
    groups: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    num_groups: int
    group_size: int
    backend: Literal["NVSHMEM", "DEFAULT", "HIERARCHICAL"]
    lowered: Literal["NVSHMEM", "DEFAULT", "HIERARCHICAL"]
    veto: str | None
    rule: str
    reason: str
    model: str | None
    computation: str
    in_loop: bool
    executions: int | None
    source_file: str | None
    source_line: int
    reduction: str
    part_of: str | None
    kernel: str | None
    mode: str | None
    is_sync: bool
    operand_space: int
    result_space: int
    way: str | None
    way_reason: str | None
    chosen_way: str | None


#: Keys of a record that a row does not have: `pairs` are counted by their length, domains belong to parts.
LEFT_OUT = frozenset({"num_pairs", "num_domains"})


def decision(module: str, record: Mapping[str, Any], explanation: _core.Explanation) -> Decision:
    """Returns the row of a collective.

    Args:
      module: name of the module.
      record: what `_core.inspect_module` says of it.
      explanation: what `_core.explain_module` says of it, for participants and shape.
    """
    return Decision(
        module=module,
        shape=explanation["shape"],
        # Without a number of devices the explanation is of as many as are needed, and its groups mean nothing.
        groups=tuple(map(tuple, explanation["groups"])) if record["group_size"] else (),
        pairs=tuple(explanation["pairs"]),
        **{key: value for key, value in record.items() if key not in LEFT_OUT},
    )
