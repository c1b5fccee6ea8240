"""Reads and writes HLO modules.

A path may be an ``--xla_dump_to`` directory, HLO text, a serialized ``HloModuleProto``, or an ``HloProto`` with one, as
in XLA's own dumps. Files may be compressed; ``-`` is standard input. The content decides the kind of a file, not its
name.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xla_shmem.errors import UserError
from xla_shmem.hlo import xla_text
from xla_shmem.hlo.file_forms import TEXT_START, FileFormError, as_text, decompressed, several_modules, what_it_is

if TYPE_CHECKING:
    from xla_shmem import _core

#: The last dump of a module: ``cpu_after_optimizations.txt``, ``sm_9.0_gpu_after_optimizations.hlo.pb``.
_FINAL = re.compile(r"(?P<module>.*after_optimizations)(?P<form>\.hlo\.pb|\.hlo|\.txt)(?:\.gz)?")
_ANY_DUMP = re.compile(r".*\.(?:hlo\.pb|hlo|txt|pb)(?:\.gz)?")
_PREFERENCE = (".hlo.pb", ".hlo", ".txt")


class HloFileError(UserError):
    """An input or output cannot be used; the message names the file, the reason and the way out."""


@dataclass(frozen=True)
class HloInput:
    """One module.

    Attributes:
      source: the file it came from, ``<stdin>`` for ``-``.
      proto: serialized ``HloModuleProto``.
      header: its name, device assignment and form.
      compiled_for: platform, ``"cpu"`` or ``"gpu"``, if the source says it; else ``""``.
    """

    source: str
    proto: bytes
    header: _core.ModuleHeader
    compiled_for: str = ""

    @property
    def name(self) -> str:
        """The module's name."""
        return self.header["name"]

    @property
    def platform(self) -> str:
        """``"gpu"`` or ``"cpu"``: as the source says, by the dump's file name, or by the form of the collectives."""
        if self.compiled_for:
            return self.compiled_for
        for platform in ("gpu", "cpu"):
            if f"{platform}_after_optimizations" in Path(self.source).name:
                return platform
        return "gpu" if self.header["is_gpu_form"] else "cpu"


def read_modules(path: str) -> Iterator[HloInput]:
    """Yields the modules of a file, a dump directory (each module once, after optimization), or ``-``.

    Raises:
      HloFileError: missing, unreadable, empty, truncated, or not HLO.
    """
    if path == "-":
        yield _parse("<stdin>", sys.stdin.buffer.read())
    elif Path(path).is_dir():
        for file in _final_modules(Path(path)):
            yield _parse(str(file), _read(file))
    else:
        yield _parse(path, _read(Path(path)))


def read_module(path: str) -> HloInput:
    """Returns the one module of a path.

    Raises:
      HloFileError: as :func:`read_modules`, or the path is a directory with several modules.
    """
    modules = list(read_modules(path))
    if len(modules) > 1:
        raise HloFileError(
            f"{path}: holds {len(modules)} modules, one is needed; name a file in it, such as {modules[0].source}."
        )
    return modules[0]


def warn_of_unpartitioned(modules: Iterable[HloInput]) -> None:
    """Prints a line to stderr for each module in which collectives are missing, because XLA has yet to add them."""
    for module in modules:
        if module.header["awaits_partitioning"]:
            print(why_unpartitioned(module), file=sys.stderr)


def why_unpartitioned(module: HloInput) -> str:
    """Returns a sentence for a module in which ``awaits_partitioning`` is set."""
    return (
        f"{module.source}: is not partitioned yet: it has shardings, and XLA adds their collectives when it compiles; "
        "give the compiled module, lowered.compile().as_text(), or a dump's *after_optimizations*."
    )


def write_module(path: str, proto: bytes) -> None:
    """Writes a module: text to ``.txt`` and ``.hlo``, a proto to ``.pb``, gzipped if ``.gz`` follows.

    Raises:
      HloFileError: another extension, or the file cannot be written.
    """
    form = Path(path.removesuffix(".gz")).suffix
    check_output(path)
    data = proto if form == ".pb" else to_text(path, proto).encode()
    if path.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise HloFileError(f"{path}: cannot be written: {error.strerror}.") from None


def check_output(path: str) -> None:
    """Checks the extension of an output path. Raises: HloFileError."""
    if Path(path.removesuffix(".gz")).suffix not in (".txt", ".hlo", ".pb"):
        raise HloFileError(f"{path}: the extension must be .txt or .hlo (text) or .pb (proto), with or without .gz.")


def to_text(source: str, proto: bytes) -> str:
    """Returns the HLO text of a serialized ``HloModuleProto``, replica and partition counts included.

    Raises:
      HloFileError: XLA rejects the module; the message begins with ``source``.
    """
    from xla_shmem import _core

    try:
        text = xla_text.print_module(proto)
    except xla_text.XlaTextError as error:
        raise HloFileError(f"{source}: XLA cannot read the module: {error}.") from None
    # jaxlib builds the module without an execution config, so the first line has no counts.
    first, newline, rest = text.partition("\n")
    header = _core.module_header(proto)
    for key, count in (("replica_count", header["replicas"]), ("num_partitions", header["partitions"])):
        if count > 1 and f", {key}=" not in first:
            first += f", {key}={count}"
    return first + newline + rest


def _final_modules(directory: Path) -> list[Path]:
    chosen: dict[str, tuple[int, Path]] = {}
    others = []
    try:
        files = sorted(file for file in directory.iterdir() if file.is_file())
    except OSError as error:
        raise HloFileError(f"{directory}: cannot be read: {error.strerror}.") from None
    for file in files:
        if match := _FINAL.fullmatch(file.name):
            rank = _PREFERENCE.index(match["form"])
            key = match["module"]
            if key not in chosen or rank < chosen[key][0]:
                chosen[key] = (rank, file)
        elif _ANY_DUMP.fullmatch(file.name):
            others.append(file.name)
    if chosen:
        return [file for _, file in chosen.values()]
    found = f"only {len(others)} other files such as {others[0]}" if others else "no HLO files"
    raise HloFileError(
        f"{directory}: no *after_optimizations* module, {found}; dump with "
        f"XLA_FLAGS=--xla_dump_to={directory}, or name a file."
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HloFileError(f"{path}: cannot be read: {error.strerror}.") from None


def _parse(source: str, data: bytes) -> HloInput:
    from xla_shmem import _core

    try:
        data = decompressed(data)
        if not data.strip():
            raise HloFileError(f"{source}: is empty.")
        text = as_text(data)
    except FileFormError as error:
        raise HloFileError(f"{source}: {error}.") from None
    if text is not None and TEXT_START.match(text):
        proto = _proto_of_text(source, text)
    elif found := what_it_is(data, text):
        raise HloFileError(f"{source}: {found}.")
    else:
        try:
            proto = _core.unwrap_module(data)
        except ValueError as error:
            raise HloFileError(
                f"{source}: {error}; give HLO text, an HloModuleProto or HloProto, or an --xla_dump_to directory."
            ) from None
    try:
        return HloInput(source, proto, _core.module_header(proto))
    except ValueError as error:
        raise HloFileError(f"{source}: {error}.") from None


def _proto_of_text(source: str, text: str) -> bytes:
    from jaxlib import version

    from xla_shmem import _core

    try:
        proto = xla_text.parse(text)
    except xla_text.XlaTextError as error:
        if several := several_modules(text):
            raise HloFileError(f"{source}: {several}.") from None
        raise HloFileError(
            f"{source}: jaxlib {version.__version__} cannot parse it ({error}); if a newer XLA "
            "wrote it, dump with --xla_dump_hlo_as_proto."
        ) from None
    if _core.module_header(proto)["devices"]:
        return proto
    # The text has the number of devices; in the proto only the device assignment can hold it.
    start = TEXT_START.match(text)
    first = text[start.end() if start else 0 :].partition("\n")[0]
    replicas, partitions = (_count(first, key) for key in ("replica_count", "num_partitions"))
    if replicas * partitions <= 1:
        return proto
    try:
        return _core.with_default_assignment(proto, replicas, partitions)
    except ValueError as error:
        raise HloFileError(f"{source}: {error}.") from None


def _count(first_line: str, key: str) -> int:
    match = re.search(rf",\s*{key}=(\d+)", first_line)
    return min(int(match[1]), 2**62) if match else 1  # what `_core` can take, and more than it supports
