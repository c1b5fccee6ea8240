"""The options in force: of the environment and of :func:`configure`.

Every option (docs/options.md) is an environment variable ``XLA_SHMEM_<NAME>`` and a keyword ``<name>`` of
:func:`configure`. A keyword beats the environment, the environment beats the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from xla_shmem import gpu_ways, jax_start
from xla_shmem.errors import TooLateError
from xla_shmem.options.values import OptionError

if TYPE_CHECKING:
    from xla_shmem.options.tuning_table import Table


@dataclass(frozen=True)
class Options:
    """The values in force, in bytes, seconds and microseconds. None stands for ``auto``, or for no value.

    Attributes:
      threshold: 2^63-1 for ``none``.
      backends: ``default`` or words with commas.
      ops: (op, limit in bytes or None) of each listed op; empty for ``default``.
      tuning: the table of profile ``tuned``; None for other profiles.
      nvlink_domain: devices per NVLink domain; 0 means one domain per host.
    """

    # Fields: written by tools/option_files.py.
    profile: Literal["upstream", "domain", "tuned"]
    threshold: int
    ops: tuple[tuple[str, int | None], ...]
    backends: str
    tuning: Table | None
    nvlink_domain: int | None
    hierarchical: Literal["auto", "on", "off"]
    heap_size: int | None
    deadline: float
    spin_us: int
    single_copy: Literal["auto", "off", "user"]
    verbose: int
    stats: int
    trace: str | None
    records: str
    default_records: Literal["on", "off"]
    nvshmem_library: str | None
    gpu_heap: Literal["auto", "nvshmem", "driver"]
    gpu_puts: Literal["auto", "nvshmem", "driver"]
    gpu_permute: Literal["auto", "kernel", "copies"]
    gpu_reduce: Literal["kernel", "multimem"]
    job: str | None
    # End of the fields.

    def decision_key(self) -> str:
        """Returns the options that decisions depend on; equal keys mean equal decisions."""
        return self._key("decides")

    def gpu_key(self) -> str:
        """Returns the options that must be equal in all processes of a job on GPUs."""
        return self._key("equal_on_ranks")

    def _key(self, trait: Literal["decides", "equal_on_ranks"]) -> str:
        from xla_shmem.options.table import TABLE

        key = " ".join(f"{name}={_text(getattr(self, name))}" for name, row in TABLE.items() if getattr(row, trait))
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
            "backends": () if self.backends == "default" else tuple(self.backends.split(",")),
            "settable": gpu_ways.settable(platform),
        }


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(op if limit is None else f"{op}<{limit}" for op, limit in value) or "default"
    return "auto" if value is None else str(value)


def _tuning(values: Mapping[str, Any], environ: Mapping[str, str], source: str, any_machine: bool) -> Table | None:
    """Reads the table if the profile needs it; ``values["tuning"]`` is its path, or None for the default.

    `source`: the option that names the path, for errors; "" for none.
    """
    if values["profile"] != "tuned":
        return None
    from xla_shmem.options import fingerprint
    from xla_shmem.options import tuning_table as tables

    path = tables.default_path(environ) if values["tuning"] is None else Path(values["tuning"])
    try:
        found = tables.load(path)
        here = fingerprint.fingerprint(values, found.platform)
        if not any_machine and (difference := fingerprint.difference(found.fingerprint, here)):
            raise tables.TuningError(f"{difference}; run `xla-shmem tune` again, or choose another profile.")
    except tables.TuningError as error:
        named = f"{source}={str(path)!r}" if source else f"the tuning table {path}"
        raise OptionError(f"{named}: {error}") from None
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
      OptionError: a variable is no option; or a value is not allowed, and the message names the variable (or keyword),
        the value and the allowed values; or the tuning table cannot be used.
    """
    from xla_shmem.options.given import check_names
    from xla_shmem.options.table import TABLE, read

    environ = os.environ if environ is None else environ
    check_names(environ)
    overrides = _overrides if overrides is None else overrides
    values: dict[str, Any] = {}
    tuning = "" if "tuning" in overrides or not environ.get(TABLE["tuning"].env) else TABLE["tuning"].env
    for name, option in TABLE.items():
        if name in overrides:
            values[name] = read(option, name, str(overrides[name]))
        elif text := environ.get(option.env, "") or option.default:
            values[name] = read(option, option.env, text)
        else:
            values[name] = None
    values["tuning"] = _tuning(values, environ, tuning, any_machine)
    return Options(**values)


_overrides: dict[str, object] = {}
_frozen = False


class _Default(str):
    """A keyword that was not given: the environment's value holds, or this default."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self or "unset"


def _default(text: str) -> Any:
    """Returns the default of a keyword as a user would write it, of any type for type checkers."""
    return _Default(text)


def configure(
    *,
    # Keywords: written by tools/option_files.py.
    profile: Literal["upstream", "domain", "tuned"] | None = _default("upstream"),
    threshold: int | str | None = _default("16MiB"),
    ops: str | None = _default("default"),
    backends: str | None = _default("default"),
    tuning: str | os.PathLike[str] | None = _default(""),  # noqa: B008
    nvlink_domain: int | str | None = _default("auto"),
    hierarchical: Literal["auto", "on", "off"] | None = _default("auto"),
    heap_size: int | str | None = _default("auto"),
    deadline: float | None = _default("inf"),
    spin_us: int | None = _default("100"),
    single_copy: Literal["auto", "off", "user"] | None = _default("auto"),
    verbose: int | None = _default("0"),
    stats: int | None = _default("0"),
    trace: str | os.PathLike[str] | None = _default(""),  # noqa: B008
    records: str | os.PathLike[str] | None = _default("auto"),  # noqa: B008
    default_records: Literal["on", "off"] | None = _default("on"),
    nvshmem_library: str | os.PathLike[str] | None = _default(""),  # noqa: B008
    gpu_heap: Literal["auto", "nvshmem", "driver"] | None = _default("auto"),
    gpu_puts: Literal["auto", "nvshmem", "driver"] | None = _default("auto"),
    gpu_permute: Literal["auto", "kernel", "copies"] | None = _default("auto"),
    gpu_reduce: Literal["kernel", "multimem"] | None = _default("kernel"),
    job: str | None = _default(""),
    # End of the keywords.
) -> None:
    """Sets options of this process from Python; docs/options.md and ``xla-shmem options`` describe them.

    Call it before the first JAX computation. Several calls add up; ``None`` removes an earlier value. A size is a
    number of bytes or a text such as ``"16MiB"``, ``deadline`` is in seconds, ``spin_us`` in microseconds.

    Raises:
      OptionError: a value is not allowed. No option is changed then.
      TooLateError: JAX has begun, with xla-shmem or without it, so the values would have no effect.
    """
    given = {name: value for name, value in locals().items() if not isinstance(value, _Default)}
    refuse_after_start(f"configure({', '.join(given)})")
    from xla_shmem.options.table import TABLE, read

    for name, value in given.items():
        if value is not None:
            read(TABLE[name], name, str(value))
    for name, value in given.items():
        if value is None:
            _overrides.pop(name, None)
        else:
            _overrides[name] = value


def refuse_after_start(call: str) -> None:
    """Raises an error if options can no longer change.

    Args:
      call: what the user has called, for the error.

    Raises:
      TooLateError: the options are frozen, or JAX has begun without them.
    """
    if _frozen or jax_start.has_begun():
        raise TooLateError(
            f"{call}: JAX has already taken its devices, at the first computation or at jax.devices(), and xla-shmem "
            "reads its options then. Restart the process (in a notebook: the kernel) and call it before that."
        )


def export(environ: MutableMapping[str, str]) -> None:
    """Writes the values of :func:`configure` into an environment, for readers that know only variables."""
    if not _overrides:
        return
    from xla_shmem.options.table import TABLE

    environ.update({TABLE[name].env: str(value) for name, value in _overrides.items()})


def freeze(*, cpu: bool = True, gpu: bool = True) -> Options:
    """Returns the options in force and refuses later :func:`configure` calls. Called by the plugin.

    Args:
      cpu: whether this process runs collectives on CPUs.
      gpu: whether it runs them on GPUs.

    Raises:
      OptionError: as :func:`resolve`, or an option has no effect here.
    """
    from xla_shmem.options.given import check_effects

    global _frozen
    options = resolve()
    check_effects(os.environ, _overrides, cpu=cpu, gpu=gpu)
    _frozen = True
    return options
