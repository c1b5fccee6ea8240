"""What a section finds out, as JSON lines in a file, written as it goes: what a crash leaves behind still counts.

All ranks of a section write to one file; each line is one write, so they do not mix.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

#: Names the file.
VARIABLE = "GPU_CHECK_RECORDS"

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
    """Something that is so."""
    _write(kind="fact", name=name, value=value)


def check(name: str, ok: bool, detail: str = "") -> None:
    """Something that has to be so. Every rank of a job makes the same checks."""
    _write(kind="check", name=name, ok=bool(ok), detail=detail)


def same(name: str, digest: str) -> None:
    """Something that has to be the same on all ranks."""
    _write(kind="same", name=name, digest=digest)


def left_out(name: str, reason: str) -> None:
    """Something that could not be run."""
    _write(kind="left out", name=name, reason=reason)


def row(table: str, **columns: Any) -> None:
    """One row of a table of measurements."""
    _write(kind="row", table=table, columns=columns)


def read(path: Path) -> list[Record]:
    """The records of a section; a line that was cut off is left out."""
    records = []
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records
