"""The pass on modules in HLO text: text in, text and records out.

The modules run on four devices, one for each process; device i is PE 3 - i, so that ids and PEs cannot be confused.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

from jaxlib import _hlo
from reference_proto import decode

from xla_shmem import _core

DEVICES = 4
TOPOLOGY = _core.Topology([(i, i, 0, 0, DEVICES - 1 - i) for i in range(DEVICES)])
TRANSPORT = _core.cpu_transport({i: 0 for i in range(DEVICES)})
PREFIX = "xla_shmem."
_ATTRIBUTES = re.compile(r', frontend_attributes=\{(?:[^{}"]|"[^"]*")*\}')
_ARGUMENTS = re.compile(r", backend_config=\{op = .*\}$")


def to_proto(text: str) -> bytes:
    """The serialised HloModuleProto of HLO text."""
    proto: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


@dataclasses.dataclass(frozen=True)
class HloModule:
    """A serialised module, as XLA prints it and as protobuf reads it."""

    proto: bytes

    @functools.cached_property
    def text(self) -> str:
        """XLA's text: names without %, operands without shapes."""
        options = _hlo.HloPrintOptions()
        options.print_percent = False
        options.print_operand_shape = False
        module = _hlo.HloModule.from_serialized_hlo_module_proto(self.proto)
        printed: str = module.to_string(options)
        return printed

    @functools.cached_property
    def _instructions(self) -> dict[str, Any]:
        return {i.name: i for c in decode(self.proto).computations for i in c.instructions}

    def instruction(self, name: str) -> str:
        """`shape opcode(operands), ...` without frontend attributes and without the arguments of our calls."""
        (line,) = re.findall(rf"^ *(?:ROOT )?{re.escape(name)} = (.*)$", self.text, re.M)
        return _ARGUMENTS.sub("", _ATTRIBUTES.sub("", line))

    def names(self, computation: str = "main") -> list[str]:
        """The instructions of a computation, in their order."""
        (body,) = re.findall(rf"^(?:ENTRY )?{re.escape(computation)} .*?^\}}", self.text, re.M | re.S)
        return re.findall(r"^ +(?:ROOT )?([\w.-]+) = ", body, re.M)

    def attributes(self, name: str) -> dict[str, str]:
        """The instruction's frontend attributes; ours without their prefix."""
        attributes = self._instructions[name].frontend_attributes.map
        return {key.removeprefix(PREFIX): value for key, value in attributes.items()}

    def target(self, name: str) -> str:
        """The custom-call target; "" for an instruction that is no custom call."""
        target: str = self._instructions[name].custom_call_target
        return target

    def arguments(self, name: str) -> dict[str, str]:
        """The arguments of one of our calls as MLIR text, by name."""
        config = self._instructions[name].backend_config.decode()
        return dict(re.findall(r'(\w+) = (array<[^>]*>|"[^"]*"|-?\d+)', config))


@dataclasses.dataclass(frozen=True)
class PassRun:
    """One run of the pass: the module before and after, and a record for each collective, by name."""

    before: HloModule
    after: HloModule
    changed: bool
    records: dict[str, dict[str, Any]]

    def veto(self) -> str | None:
        """Why the module's only collective, which the rules give to NVSHMEM, stays with XLA; None if it does not."""
        (record,) = self.records.values()
        assert record["backend"] == "NVSHMEM"
        assert record["lowered"] == ("DEFAULT" if record["veto"] else "NVSHMEM")
        veto: str | None = record["veto"]
        return veto


def run_pass(module: str | bytes, lowering: str = "cpu", **options: Any) -> PassRun:
    """Runs the pass, and checks what holds for every module.

    A second run changes nothing, and inspect reads back the records that the pass returned.
    """
    before = to_proto(module) if isinstance(module, str) else module
    options = {"topology": TOPOLOGY, "transport": TRANSPORT, "lowering": lowering, **options}
    result = _core.run_pass(before, **options)
    after = before if result.module is None else result.module
    again = _core.run_pass(after, **options)
    assert again.module is None
    assert again.records == result.records
    if result.module is not None:
        assert _core.inspect_module(after) == result.records
    records = {record["name"]: record for record in result.records}
    return PassRun(HloModule(before), HloModule(after), result.module is not None, records)


def inspect(text: str) -> list[dict[str, Any]]:
    """The records of a module's collectives as it stands."""
    records: list[dict[str, Any]] = _core.inspect_module(to_proto(text))
    return records


def explain(module: bytes, lowering: str = "cpu", **options: Any) -> list[dict[str, Any]]:
    """Returns the decision for each collective of a module."""
    options = {"topology": TOPOLOGY, "transport": TRANSPORT, "lowering": lowering, **options}
    explanations: list[dict[str, Any]] = _core.explain_module(module, **options)
    return explanations


def schedule(text: str) -> dict[str, dict[str, Any]]:
    """The computations that run, by name; their instructions by name, in the order in which they run."""
    computations = _core.schedule(to_proto(text))
    return {c["name"]: {**c, "instructions": {i["name"]: i for i in c["instructions"]}} for c in computations}
