"""Instructions of compiled modules in the form that the pass writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Operation:
    """An instruction of a compiled module, as hlo/rewrite/custom_call.cc writes it.

    Attributes:
      name: of the instruction.
      attributes: of the call.
    """

    name: str
    attributes: dict[str, Any]

    @staticmethod
    def permute(number: int, topology: int, pairs: Sequence[tuple[int, int]]) -> Operation:
        flat = [pe for pair in pairs for pe in pair]
        return Operation._make(number, topology, f"collective-permute.{number}", {"pairs": flat})

    @staticmethod
    def all_reduce(number: int, topology: int, reduction: str, groups: Sequence[Sequence[int]]) -> Operation:
        offsets = [sum(len(group) for group in groups[:index]) for index in range(len(groups) + 1)]
        members = [pe for group in groups for pe in group]
        more = {"reduction": reduction, "group_offsets": offsets, "groups": members}
        return Operation._make(number, topology, f"all-reduce.{number}", more)

    @staticmethod
    def _make(number: int, topology: int, name: str, more: dict[str, Any]) -> Operation:
        # The ids of operations are hashes: all 64 bits are used.
        op = (number + 1) * 0x5851F42D4C957F2D % 2**64 - 2**63
        return Operation(name, {"op": op, "module": "jit_step", "name": name, "topology": topology, **more})

    @property
    def is_permute(self) -> bool:
        return self.name.startswith("collective-permute")
