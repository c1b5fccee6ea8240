"""Modules and their collectives, for the reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from xla_shmem.hlo.collective_report import ModuleReport
from xla_shmem.hlo.files import HloFileError, HloInput, read_modules
from xla_shmem.inspect.overlap import Overlap, find_overlaps
from xla_shmem.inspect.ways import dumped_flags, way_of

if TYPE_CHECKING:
    from xla_shmem import _core

T = TypeVar("T")


@dataclass(frozen=True)
class InspectedModule:
    """One module and its selected collectives.

    Attributes:
      input: the module and its source.
      records: the selected collectives, as ``_core.inspect_module`` returns them, with ``way`` and ``way_reason``
        (ways.py); None for XLA:CPU.
    """

    input: HloInput
    records: Sequence[Mapping[str, Any]]

    @cached_property
    def schedule(self) -> list[_core.ComputationSchedule]:
        """The schedule of the module. Raises: HloFileError."""
        from xla_shmem import _core

        return _call(_core.schedule, self.input)

    @cached_property
    def overlaps(self) -> dict[tuple[str, str], Overlap]:
        """The overlap of each start/done pair, by computation and name."""
        return find_overlaps(self.schedule)

    def report(self) -> ModuleReport:
        """Returns the module for tables and JSON."""
        return ModuleReport(self.input.source, self.input.name, self.records)


def read_inspected(path: str, selects: Callable[[Mapping[str, Any]], bool]) -> list[InspectedModule]:
    """Returns the modules of a path with their selected collectives.

    Raises:
      HloFileError: the path cannot be used, or a module is malformed.
    """
    return [inspected(module, selects) for module in read_modules(path)]


def inspected(module: HloInput, selects: Callable[[Mapping[str, Any]], bool]) -> InspectedModule:
    """Returns a module with its selected collectives. Raises: HloFileError."""
    from xla_shmem import _core

    records = [record for record in _call(_core.inspect_module, module) if selects(record)]
    flags = dumped_flags(module.source)
    devices = len(_call(_core.module_header, module)["devices"])
    ways = (way_of(record, flags, devices) if module.platform == "gpu" else (None, None) for record in records)
    return InspectedModule(
        module, [record | {"way": way, "way_reason": why} for record, (way, why) in zip(records, ways, strict=True)]
    )


def _call(read: Callable[[bytes], T], module: HloInput) -> T:
    try:
        return read(module.proto)
    except ValueError as error:
        raise HloFileError(f"{module.source}: {error}") from None
