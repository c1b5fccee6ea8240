"""The options in force: of the environment and of :func:`configure`.

Every option (:mod:`xla_shmem.option_table`) is an environment variable ``XLA_SHMEM_<NAME>`` and a keyword ``<name>`` of
:func:`configure`. A keyword beats the environment, the environment beats the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from xla_shmem.option_table import TABLE, Option


class OptionError(ValueError):
    """An option has a value it cannot take; the message names it, the value and what is allowed."""


_BY_NAME = {option.name: option for option in TABLE}


@dataclass(frozen=True)
class Options:
    """The values in force.

    Attributes:
      profile: ``"blog"`` or ``"domain"``.
      threshold: bytes; NO_THRESHOLD for ``none``.
      ops: (op, limit in bytes or None) of each listed op; empty for ``"blog"``.
      nvlink_domain: devices per NVLink domain; 0 means one domain per host, None ``auto``.
      heap_size: bytes per process; None means ``auto``.
      deadline: seconds.
      spin_us: microseconds.
      single_copy: ``"auto"`` or ``"off"``.
      verbose: 0, 1 or 2.
      stats: 0 or 1.
      trace: path; None when no trace is wanted.
      records: ``"auto"``, ``"off"`` or a directory.
      nvshmem_library: path; None when it is to be looked for.
      gpu_puts: ``"auto"``, ``"nvshmem"`` or ``"driver"``.
      gpu_reduce: ``"rings"`` or ``"teams"``.
      job: job key of the shared-memory segments; None when `xla-shmem launch` did not set one.
    """

    profile: str
    threshold: int
    ops: tuple[tuple[str, int | None], ...]
    nvlink_domain: int | None
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
    gpu_reduce: str
    job: str | None

    def decision_key(self) -> str:
        """Returns the options that decide what a module is compiled to; equal keys mean equal decisions."""
        domain = {None: "auto", 0: "host"}.get(self.nvlink_domain, self.nvlink_domain)
        ops = ",".join(op if limit is None else f"{op}<{limit}" for op, limit in self.ops) or "blog"
        return f"profile={self.profile} threshold={self.threshold} ops={ops} nvlink_domain={domain}"


assert [field.name for field in fields(Options)] == [option.name for option in TABLE]


def _parse(option: Option, source: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        raise OptionError(f"{source}={text!r}: must be {error}.") from None


def resolve(environ: Mapping[str, str] | None = None, overrides: Mapping[str, object] | None = None) -> Options:
    """Returns the options in force.

    Args:
      environ: the environment; ``os.environ`` when omitted. An empty variable counts as unset.
      overrides: values by option name, which beat the environment; what :func:`configure` was given when
        omitted.

    Raises:
      OptionError: a value is not allowed; the message names the variable (or keyword), the value and what is
        allowed.
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
    return Options(**values)


_overrides: dict[str, object] = {}
_frozen = False


def configure(**values: object) -> None:
    """Sets options of this process from Python; see ``xla-shmem options`` for names and values.

    Call it before the first JAX computation. Several calls add up; ``None`` takes an earlier value back.

    Raises:
      TypeError: an unknown option name.
      OptionError: a value is not allowed. Nothing is changed then.
      RuntimeError: the plugin has already initialised, so that the value would come too late.
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
