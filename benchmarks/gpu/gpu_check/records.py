"""The findings of a section, as JSON lines in a file. Each is written at once, so findings before a crash count.

All ranks of a section write to one file; each line is one write, so they do not mix.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Names the file.
VARIABLE = "GPU_CHECK_RECORDS"

#: "1" if the GPU is emulated (tests/gpu_emulator): then times mean nothing.
EMULATED = "GPU_CHECK_EMULATED"
NOT_MEASURED = "emulated: not measured"

#: Folder of the report, for files that belong to it.
OUT = "GPU_CHECK_OUT"

Record = dict[str, Any]


def _write(**record: Any) -> None:
    rank = os.environ.get("OMPI_COMM_WORLD_RANK")
    if rank is not None:
        record["rank"] = int(rank)
    line = json.dumps(record) + "\n"
    path = os.environ.get(VARIABLE)
    if path is None:
        print(line, end="", flush=True)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def fact(name: str, value: Any) -> None:
    """Records a fact."""
    _write(kind="fact", name=name, value=value)


def check(name: str, ok: bool, detail: str = "") -> None:
    """Records a check that must hold. Every rank of a job makes the same checks."""
    _write(kind="check", name=name, ok=bool(ok), detail=detail)


def same(name: str, digest: str) -> None:
    """Records a digest that must be equal on all ranks."""
    _write(kind="same", name=name, digest=digest)


def left_out(name: str, reason: str) -> None:
    """Records something that could not run here."""
    _write(kind="left out", name=name, reason=reason)


def row(table: str, **columns: Any) -> None:
    """Records one row of a table of measurements."""
    _write(kind="row", table=table, columns=columns)


def emulated() -> bool:
    """Returns whether the GPU of this machine is emulated."""
    return os.environ.get(EMULATED) == "1"


def sizes(all_sizes: Sequence[int]) -> Sequence[int]:
    """Returns the sizes to measure; on an emulated GPU those up to 1 MiB or the smallest, only to run the program."""
    if not emulated():
        return all_sizes
    return [size for size in all_sizes if size <= 1 << 20] or all_sizes[:1]


def measured_row(table: str, times: Mapping[str, Any], **columns: Any) -> None:
    """Records one row whose last columns, `times`, follow from measured times; on an emulated GPU they are left out."""
    shown = dict.fromkeys(times, NOT_MEASURED) if emulated() else times
    row(table, **columns, **shown)


def read(path: Path) -> list[Record]:
    """Returns the records of a section, without incomplete lines."""
    records = []
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records
