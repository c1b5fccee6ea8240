"""The options of xla-shmem: one table, read by the plugin, the commands and the documentation.

Every option is an environment variable ``XLA_SHMEM_<NAME>`` and a keyword ``<name>`` of
:func:`configure`. A keyword beats the environment, the environment beats the default.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

ENV_PREFIX = "XLA_SHMEM_"

KIB = 1024
MIB = 1024 * KIB

#: All-reduces of this many bytes and more stay on the default backend (the public write-up's limit).
DEFAULT_THRESHOLD = 16 * MIB

#: What ``THRESHOLD=none`` means, to the compiler pass too.
NO_THRESHOLD = 2**63 - 1

#: What ``OPS`` may list, in the order of ``all``.
OPS = ("all-reduce", "collective-permute", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast")

#: What ``HEAP_SIZE=auto`` means: this much, or what fits in /dev/shm, but never less than the minimum.
AUTO_HEAP_SIZE = 64 * MIB
MIN_HEAP_SIZE = 8 * MIB

_SIZE = re.compile(r"(\d+)\s*(B|K|KiB|M|MiB|G|GiB)?", re.ASCII | re.IGNORECASE)
_SIZE_UNIT = {"b": 1, "k": KIB, "m": MIB, "g": 1024 * MIB}
_JOB = re.compile(r"[0-9a-f]{32}", re.ASCII)
_INT64_MAX = 2**63 - 1


class OptionError(ValueError):
    """An option has a value it cannot take; the message names it, the value and what is allowed."""


def parse_size(text: str) -> int:
    """Reads a size such as ``16MiB``, ``4K`` or ``65536`` and returns bytes.

    ``K``, ``M`` and ``G`` (with or without ``iB``) are powers of 1024; case does not matter. Decimal units
    (``MB``), fractions and signs are refused rather than guessed at.

    Raises:
      ValueError: the text is not such a size, or does not fit in a signed 64-bit integer.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("a size in bytes such as 16MiB, 4K or 65536")
    number, unit = match.groups()
    size = int(number) * _SIZE_UNIT[(unit or "B")[0].lower()]
    if size > _INT64_MAX:
        raise ValueError("a size below 2^63 bytes")
    return size


def _threshold(text: str) -> int:
    return NO_THRESHOLD if text.strip().lower() == "none" else parse_size(text)


def _op(text: str) -> tuple[str, int | None]:
    name, limited, limit = (part.strip() for part in text.partition("<"))
    if name not in OPS:
        raise ValueError(f"'blog', 'all' or a list such as all-reduce<16MiB,all-gather out of {', '.join(OPS)}")
    try:
        return name, parse_size(limit) if limited else None
    except ValueError as error:
        raise ValueError(f"a list with, after {name}<, {error}") from None


def _ops(text: str) -> tuple[tuple[str, int | None], ...]:
    """Returns (op, limit in bytes or None) of each listed op, in the order of OPS; nothing for ``blog``."""
    name = text.strip().lower()
    if name == "blog":
        return ()
    listed = [_op(part) for part in (",".join(OPS) if name == "all" else name).split(",")]
    names = [op for op, _ in listed]
    if len(set(names)) < len(names):
        raise ValueError("a list that names every op once")
    return tuple(sorted(listed, key=lambda entry: OPS.index(entry[0])))


def _heap_size(text: str) -> int | None:
    if text.strip().lower() == "auto":
        return None
    try:
        size = parse_size(text)
    except ValueError:
        size = 0
    if size < MIN_HEAP_SIZE:
        raise ValueError("'auto' or a size of at least 8MiB")
    return size


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError(" or ".join(f"'{value}'" for value in allowed))
        return text.strip().lower()

    return parse


def _count(minimum: int, maximum: int, what: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text.strip(), re.ASCII) or not minimum <= int(text) <= maximum:
            raise ValueError(what)
        return int(text)

    return parse


def _domain(text: str) -> int | None:
    names = {"auto": None, "host": 0}
    if (name := text.strip().lower()) in names:
        return names[name]
    return _count(1, 2**31 - 1, "'auto', 'host' or a number of devices ≥ 1")(text)


def _library(text: str) -> str:
    if "/" not in text:
        raise ValueError("a path with a / in it, such as /opt/nvshmem/lib/libnvshmem_host.so.3")
    return text


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise ValueError("a number of seconds > 0")
    return value


def _job(text: str) -> str:
    if not _JOB.fullmatch(text):
        raise ValueError("32 lower-case hexadecimal digits, as set by `xla-shmem launch`")
    return text


@dataclass(frozen=True)
class Option:
    """One row of the table.

    Attributes:
      name: the keyword of :func:`configure` and the field of :class:`Options`.
      default: the default as a user would write it; empty means unset.
      allowed: the values it takes, in words.
      help: one sentence for the documentation.
      parse: turns the text into the field's value; raises ``ValueError`` with what is allowed.
    """

    name: str
    default: str
    allowed: str
    help: str
    parse: Callable[[str], Any]

    @property
    def env(self) -> str:
        """The name of the environment variable."""
        return ENV_PREFIX + self.name.upper()


TABLE: tuple[Option, ...] = (
    Option(
        "profile",
        "blog",
        "`blog`, `domain`",
        "Rules that choose the backend: `blog` as the public write-up describes them, `domain` asks of each "
        "group by itself that it lies in one NVLink domain.",
        _one_of("blog", "domain"),
    ),
    Option(
        "threshold",
        "16MiB",
        "bytes: `16MiB`, `4K`, `65536`; `none`",
        "All-reduces whose result is this large or larger stay on the default backend, unless `XLA_SHMEM_OPS` gives "
        "them a limit of their own; other ops have no limit.",
        _threshold,
    ),
    Option(
        "ops",
        "blog",
        "`blog`, `all`, or a list: `all-reduce<16MiB,all-gather`",
        "Collectives that may leave the default backend: `blog` all-reduce and collective-permute, `all` also "
        "all-gather, reduce-scatter, all-to-all and collective-broadcast, a list just these, each with a limit to the "
        "bytes of its result if one is given. What a platform does not carry (on GPU: all but the first two) stays "
        "where it is.",
        _ops,
    ),
    Option(
        "nvlink_domain",
        "auto",
        "`auto`, `host`, or a number of devices ≥ 1",
        "Devices per NVLink domain, counted in device order; `host` means one domain per host. `auto` does too on CPU; "
        "on GPUs it goes by what the driver says of NVLink and its fabric.",
        _domain,
    ),
    Option(
        "heap_size",
        "auto",
        "`auto`, or bytes ≥ 8MiB",
        "Symmetric heap of each process; `auto` is 64 MiB on CPU, shrunk to what /dev/shm holds, down to 8 MiB; on GPU "
        "36 MiB for each other PE, 20 MiB in jobs of more than eight.",
        _heap_size,
    ),
    Option(
        "deadline",
        "60",
        "seconds > 0",
        "A collective that waits longer for a peer fails with an error that names the peer.",
        _seconds,
    ),
    Option(
        "spin_us",
        "100",
        "microseconds from 0 to 1000000",
        "How long a waiting collective polls, giving way to whoever else wants the core, before it sleeps.",
        _count(0, 10**6, "a whole number of microseconds from 0 to 1000000"),
    ),
    Option(
        "single_copy",
        "auto",
        "`auto`, `off`",
        "Whether a process may read large messages out of its peers' memory (`process_vm_readv`); `auto` does where "
        "the system permits it and it is faster than shared memory. CPU only.",
        _one_of("auto", "off"),
    ),
    Option(
        "verbose",
        "0",
        "`0`, `1`, `2`",
        "1 prints the assignment table of every compiled module that has collectives on rank 0, 2 adds the "
        "runtime's own steps.",
        _count(0, 2, "0, 1 or 2"),
    ),
    Option(
        "stats",
        "0",
        "`0`, `1`",
        "1 prints at exit, for each collective of the process, calls, bytes, and the time it waited and moved data. "
        "CPU only.",
        _count(0, 1, "0 or 1"),
    ),
    Option(
        "trace",
        "",
        "a path",
        "File for a trace of all collectives in Chrome's format (Perfetto opens it), one process there for each PE; "
        "the processes of a host write to one file. CPU only.",
        str,
    ),
    Option(
        "records",
        "auto",
        "`auto`, `off`, or a directory",
        "Where the flight recorder keeps each PE's last collectives for `xla-shmem doctor --job`: `auto` is "
        "`xla-shmem-<uid>` in the directory for temporary files. Records of jobs that end well go with them. CPU only.",
        str,
    ),
    Option(
        "nvshmem_library",
        "",
        "a path",
        "NVSHMEM's host library; unset, NVIDIA's wheels, `LD_LIBRARY_PATH` and the CUDA toolkit are searched.",
        _library,
    ),
    Option(
        "gpu_puts",
        "auto",
        "`auto`, `nvshmem`, `driver`",
        "Who carries puts and signals between GPUs: NVSHMEM's on-stream calls, or the same copies and stream memory "
        "operations made through the CUDA driver. `auto` takes the driver where processes share a GPU.",
        _one_of("auto", "nvshmem", "driver"),
    ),
    Option(
        "gpu_reduce",
        "rings",
        "`rings`, `teams`",
        "How GPUs all-reduce: `rings` by puts and kernels of ours, with equal bits on all PEs; `teams` by NVSHMEM's "
        "own reductions, for groups that are axes of a mesh over all GPUs and ops that overlap with compute.",
        _one_of("rings", "teams"),
    ),
    Option(
        "job",
        "",
        "32 hexadecimal digits",
        "Key in the names of this job's shared-memory segments; `xla-shmem launch` sets it, otherwise rank 0 "
        "makes one up.",
        _job,
    ),
)

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


def markdown_table() -> str:
    """Returns the table of all options as Markdown, as it stands in the documentation."""
    rows = ["| variable | default | values | meaning |", "|---|---|---|---|"]
    for option in TABLE:
        default = f"`{option.default}`" if option.default else "unset"
        rows.append(f"| `{option.env}` | {default} | {option.allowed} | {option.help} |")
    return "\n".join(rows) + "\n"
