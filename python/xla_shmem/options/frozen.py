"""The options in force: of the environment and of :func:`configure`.

Every option (:mod:`xla_shmem.options.table`) is an environment variable ``XLA_SHMEM_<NAME>`` and a keyword
``<name>`` of :func:`configure`. A keyword beats the environment, the environment beats the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_shmem.errors import UserError
from xla_shmem.options.table import TABLE, Option

if TYPE_CHECKING:
    from xla_shmem.options.tuning_table import Table


class OptionError(UserError, ValueError):
    """A value is not allowed; the message names the option, the value and the allowed values."""


_BY_NAME = {option.name: option for option in TABLE}


@dataclass(frozen=True)
class Options:
    """The values in force.

    Attributes:
      profile: ``"upstream"``, ``"domain"`` or ``"tuned"``.
      threshold: bytes; NO_THRESHOLD for ``none``.
      ops: (op, limit in bytes or None) of each listed op; empty for ``"default"``.
      tuning: the table of profile ``"tuned"``; None for other profiles.
      nvlink_domain: devices per NVLink domain; 0 means one domain per host, None ``auto``.
      hierarchical: ``"auto"``, ``"on"`` or ``"off"``.
      heap_size: bytes per process; None means ``auto``.
      deadline: seconds.
      spin_us: microseconds.
      single_copy: ``"auto"``, ``"off"`` or ``"user"``.
      verbose: 0, 1 or 2.
      stats: 0 or 1.
      trace: path; None for no trace.
      records: ``"auto"``, ``"off"`` or a directory.
      nvshmem_library: path; None to search for it.
      gpu_puts: ``"auto"``, ``"nvshmem"`` or ``"driver"``.
      gpu_permute: ``"auto"``, ``"kernel"`` or ``"copies"``.
      gpu_reduce: ``"kernel"`` or ``"multimem"``.
      job: job key of the shared-memory segments; None when `xla-shmem launch` did not set one.
    """

    profile: str
    threshold: int
    ops: tuple[tuple[str, int | None], ...]
    tuning: Table | None
    nvlink_domain: int | None
    hierarchical: str
    heap_size: int | None
    deadline: float
    spin_us: int
    single_copy: str
    verbose: int
    stats: int
    trace: str | None
    records: str
    nvshmem_library: str | None
    gpu_puts: str
    gpu_permute: str
    gpu_reduce: str
    job: str | None

    def decision_key(self) -> str:
        """Returns the options that decisions depend on; equal keys mean equal decisions."""
        domain = {None: "auto", 0: "host"}.get(self.nvlink_domain, self.nvlink_domain)
        ops = ",".join(op if limit is None else f"{op}<{limit}" for op, limit in self.ops) or "default"
        key = (
            f"profile={self.profile} threshold={self.threshold} ops={ops} nvlink_domain={domain}"
            f" hierarchical={self.hierarchical}"
        )
        return key if self.tuning is None else f"{key} tuning={self.tuning.digest()}"

    def rules(self, platform: str) -> dict[str, Any]:
        """Returns the keywords of ``_core.run_pass`` and ``_core.PassHook.set_options`` for the rules.

        Args:
          platform: ``"cpu"`` or ``"gpu"``; a tuning table of the other platform is passed on empty.
        """
        return {
            "profile": self.profile,
            "threshold": self.threshold,
            "ops": self.ops,
            "tuning": self.tuning and self.tuning.core(platform),
            "hierarchical": self.hierarchical,
        }


assert [field.name for field in fields(Options)] == [option.name for option in TABLE]


def _parse(option: Option, source: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(f"{source}={text!r}: must be {error}.") from None


def _tuning(values: Mapping[str, Any], environ: Mapping[str, str], any_machine: bool) -> Table | None:
    """Reads the table if the profile needs it; ``values["tuning"]`` is its path, or None for the default."""
    if values["profile"] != "tuned":
        return None
    from xla_shmem.options import fingerprint
    from xla_shmem.options import tuning_table as table

    option = _BY_NAME["tuning"]
    path = table.default_path(environ) if values["tuning"] is None else Path(values["tuning"])
    try:
        found = table.load(path)
        here = fingerprint.fingerprint(values, found.platform)
        if not any_machine and (difference := fingerprint.difference(found.fingerprint, here)):
            raise table.TuningError(f"{difference}; run `xla-shmem tune` again, or choose another profile.")
    except table.TuningError as error:
        raise OptionError(f"{option.env}={str(path)!r}: {error}") from None
    return found


def resolve(
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    any_machine: bool = False,
) -> Options:
    """Returns the options in force, with the tuning table if the profile needs one.

    Args:
      environ: the environment; ``os.environ`` when omitted. An empty variable counts as unset.
      overrides: values by option name, which beat the environment; the values given to :func:`configure` when
        omitted.
      any_machine: accept a tuning table of another machine and other versions, to see its decisions there.

    Raises:
      OptionError: a value is not allowed; the message names the variable (or keyword), the value and the allowed
        values. Or the tuning table cannot be used.
    """
    environ = os.environ if environ is None else environ
    overrides = _overrides if overrides is None else overrides
    values: dict[str, Any] = {}
    for option in TABLE:
        if option.name in overrides:
            values[option.name] = _parse(option, option.name, str(overrides[option.name]))
        elif text := environ.get(option.env, ""):
            values[option.name] = _parse(option, option.env, text)
        else:
            values[option.name] = _parse(option, option.env, option.default) if option.default else None
    values["tuning"] = _tuning(values, environ, any_machine)
    return Options(**values)


_overrides: dict[str, object] = {}
_frozen = False


def configure(**values: object) -> None:
    """Sets options of this process from Python; see ``xla-shmem options`` for names and values.

    Call it before the first JAX computation. Several calls add up; ``None`` removes an earlier value.

    Raises:
      TypeError: an unknown option name.
      OptionError: a value is not allowed. No option is changed then.
      RuntimeError: the plugin has already initialised, so the value would have no effect.
    """
    for name in values:
        if name not in _BY_NAME:
            raise TypeError(f"configure(): unknown option {name!r}; the options are {', '.join(_BY_NAME)}.")
    if _frozen:
        raise RuntimeError(
            f"configure({', '.join(values)}): xla-shmem has already initialised with JAX's backends; call it "
            "before the first JAX computation."
        )
    for name, value in values.items():
        if value is not None:
            _parse(_BY_NAME[name], name, str(value))
    for name, value in values.items():
        if value is None:
            _overrides.pop(name, None)
        else:
            _overrides[name] = value


def freeze() -> Options:
    """Returns the options in force and refuses later :func:`configure` calls. Called by the plugin.

    Raises:
      OptionError: as :func:`resolve`.
    """
    global _frozen
    options = resolve()
    _frozen = True
    return options
