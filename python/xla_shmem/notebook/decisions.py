"""The decisions about the collectives of a program: of a live executable, or of a dump."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload, runtime_checkable

from rich.console import Console

from xla_shmem import plugin
from xla_shmem.console import plain_text
from xla_shmem.errors import UserError
from xla_shmem.hlo.collective_report import ModuleReport, print_tables, summary
from xla_shmem.hlo.files import HloFileError, HloInput
from xla_shmem.hlo.module_devices import devices_needed
from xla_shmem.inspect.decision_settings import CPU_PROCESS_STRIDE, Decider, DecisionSettings
from xla_shmem.inspect.difference import Difference, compare
from xla_shmem.inspect.difference_report import print_difference
from xla_shmem.inspect.explanation import describe_explanation, explain
from xla_shmem.inspect.modules import InspectedModule, inspected, read_inspected
from xla_shmem.notebook import html_tables
from xla_shmem.notebook.decision_rows import Decision, decision

if TYPE_CHECKING:
    import pandas

    from xla_shmem import _core

R = TypeVar("R")

#: Columns of printed tables: enough for a column of reasons.
_WIDTH = 160


@runtime_checkable
class Compiled(Protocol):
    """A compiled program: ``jax.stages.Compiled``."""

    def runtime_executable(self) -> Any: ...


@runtime_checkable
class Lowered(Protocol):
    """A traced program that is not compiled yet: ``jax.stages.Lowered``."""

    def compile(self) -> Any: ...


class Explanation:
    """Each rule's question, evidence and verdict for the collectives of one name. A notebook shows it as tables.

    Attributes:
      collectives: for each of them a dict ``written``, ``decided``, ``trace``, ``groups``, ``pairs``, ``shape``: as the
        module records it, as the rules decide now, and their answers in order.
    """

    def __init__(self, found: Sequence[tuple[InspectedModule, _core.Explanation]]) -> None:
        self._found = found
        self.collectives = [explanation for _, explanation in found]

    def __repr__(self) -> str:
        def write(console: Console) -> None:
            for one in self._found:
                console.print(describe_explanation(*one))

        return plain_text(write, _WIDTH)

    def _repr_html_(self) -> str:
        return html_tables.explanations(self._found)


class Differences(Sequence[Difference]):
    """What differs between the collectives of two programs, module by module. A notebook shows it as a list.

    Each has ``vanished``, ``appeared``, ``changed`` and ``equal``.
    """

    def __init__(self, found: Sequence[Difference]) -> None:
        self._found = list(found)

    @overload
    def __getitem__(self, index: int) -> Difference: ...
    @overload
    def __getitem__(self, index: slice) -> list[Difference]: ...
    def __getitem__(self, index: int | slice) -> Difference | list[Difference]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return plain_text(lambda console: print_difference(self._found, console), _WIDTH)

    def _repr_html_(self) -> str:
        return html_tables.differences(self._found)


class Decisions(Sequence[Decision]):
    """The collectives of a program with the decision for each, in the order of the module.

    It is a sequence of ``Decision``. A notebook shows it as a table, ``print`` as text.
    """

    def __init__(self, modules: Sequence[InspectedModule], decider: Decider) -> None:
        self._modules = modules
        self._decider = decider
        self._rows = [
            decision(module.input.name, record, explanation)
            for module in modules
            if module.records
            for record, explanation in zip(module.records, self._participants(module), strict=True)
        ]

    def _participants(self, module: InspectedModule) -> list[_core.Explanation]:
        """Explains all collectives. If the layout does not fit, devices in order will do: only groups are wanted."""
        from xla_shmem import _core

        try:
            return self._decider.decide(_core.explain_module, module.input, module.input.platform)
        except HloFileError:
            in_order = DecisionSettings(num_devices=None if devices_needed(module.input) else 1)
            return in_order.decide(_core.explain_module, module.input, module.input.platform)

    def _reports(self) -> list[ModuleReport]:
        return [module.report() for module in self._modules]

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> list[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | list[Decision]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a ``pandas.DataFrame``: a row for each collective, a column for each attribute of ``Decision``.

        Raises:
          UserError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UserError("to_pandas() needs pandas, which is not installed; run `pip install pandas`.") from None
        names = [field.name for field in dataclasses.fields(Decision)]
        return pandas.DataFrame([[getattr(row, name) for name in names] for row in self._rows], columns=names)

    def explain(self, name: str, settings: DecisionSettings | None = None) -> Explanation:
        """Asks the rules again about each collective of a name and returns what each rule saw.

        Args:
          name: HLO name of the collective, as in the table.
          settings: options and layout of the devices. By default those of this process's job for a compiled program, if
            xla-shmem is on. For a dump and on stock JAX, the options of this process, and devices in order.

        Raises:
          UserError: there is no such collective, or the settings do not fit the program.
          OptionError: an option has a value that is not allowed.
        """
        return Explanation(explain(self._modules, name, settings or self._decider))

    def diff(self, other: Decisions | Compiled | Lowered | str | os.PathLike[str]) -> Differences:
        """Compares these collectives, as the older ones, with those of another program.

        Modules are paired by name, or if each side has only one. Collectives are paired by name and op, then by op,
        source line, bytes and order.

        Raises:
          UserError: as ``decisions`` for `other`; or no module is in both.
        """
        other = other if isinstance(other, Decisions) else decisions(other)
        return Differences(compare(self._modules, other._modules))

    def __repr__(self) -> str:
        return plain_text(lambda console: print_tables(self._reports(), console=console), _WIDTH)

    def _repr_html_(self) -> str:
        return html_tables.table(self._rows, summary(self._reports()))


def decisions(source: Compiled | Lowered | str | os.PathLike[str]) -> Decisions:
    """Returns the collectives of a program, with backend, rule and reason of each.

    Args:
      source: a compiled program, ``jax.jit(f).lower(...).compile()``; a lowered one; or the path of a dump: a folder of
        ``--xla_dump_to``, HLO text or a serialised ``HloModuleProto``. A lowered program is compiled first, because its
        collectives do not exist before: partitioning adds them, other passes join them, and the rules go by their size.

    Raises:
      UserError: the path cannot be read, or the executable does not give its HLO.
      OptionError: a variable of the environment has a value that is not allowed.
    """
    if isinstance(source, str | os.PathLike):
        return Decisions(read_inspected(os.fspath(source), lambda record: True), DecisionSettings())
    if isinstance(source, Compiled):
        return _of_executable(source.runtime_executable())
    if isinstance(source, Lowered):
        return decisions(source.compile())
    raise UserError(
        f"decisions({type(source).__name__}): give a compiled program, jax.jit(f).lower(...).compile(), or the path of "
        "a dump."
    )


class _ThisJob:
    """The options and devices of this process's job."""

    def decide(self, decide: Callable[..., R], module: HloInput, lowering: str) -> R:
        try:
            return plugin.decide_here(decide, module.proto, lowering)
        except (RuntimeError, ValueError) as error:
            raise HloFileError(f"{module.source}: {error}") from None


def _of_executable(executable: Any) -> Decisions:
    from xla_shmem import _core

    try:
        protos = [module.as_serialized_hlo_module_proto() for module in executable.hlo_modules()]
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        raise UserError(
            f"decisions(): this executable does not give its HLO ({error}); compile with "
            "XLA_FLAGS=--xla_dump_to=FOLDER and give the folder."
        ) from None
    platform, decider = _compiled_for(executable)
    modules = [
        HloInput("compiled in this process", proto, _core.module_header(proto), compiled_for=platform)
        for proto in protos
    ]
    return Decisions([inspected(module, lambda record: True) for module in modules], decider)


def _compiled_for(executable: Any) -> tuple[str, Decider]:
    """Returns the platform of an executable, "" if it does not say, and the options and devices that it is for."""
    client = getattr(executable, "client", None)
    if client is None:  # for devices that were only described to JAX
        return "", DecisionSettings()
    platform = "cpu" if client.platform == "cpu" else "gpu"
    return platform, _ThisJob() if plugin.carries(platform) else _layout_of(client.devices())


def _layout_of(devices: Sequence[Any]) -> DecisionSettings:
    """The layout of the devices of a client without xla-shmem."""
    per_process = max(Counter(device.process_index for device in devices).values())
    is_strided = any(device.id >= CPU_PROCESS_STRIDE for device in devices)
    return DecisionSettings(devices_per_process=per_process, num_devices=None if is_strided else len(devices))
