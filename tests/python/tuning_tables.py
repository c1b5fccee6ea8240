"""Tuning tables by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from xla_shmem.options import fingerprint, resolve
from xla_shmem.options import tuning_table as table
from xla_shmem.options.tuning_table import Measured, Table, TunedRow


def times(us: float, within: float = 0.0) -> Measured:
    """Times with that median, which may be so much less or more."""
    return Measured(us, us - within, us + within, 18)


def row(op: str, bytes: int, nvshmem: float, default: float | None, **other: Any) -> TunedRow:
    """f32 in groups of 2, unless told otherwise."""
    on_default = None if default is None else times(default)
    plain = TunedRow(op, "f32", 2, bytes, times(nvshmem), on_default)
    return dataclasses.replace(plain, **other)


def here(*rows: TunedRow) -> Table:
    """A table that holds on this machine, with the options' defaults."""
    settings = vars(resolve({}, {}))
    return Table("cpu", fingerprint.fingerprint(settings), {"date": "2026-11-21", "load": [0.1]}, rows)


def written(path: Path, *rows: TunedRow) -> Path:
    """The same as a file."""
    table.save(path, here(*rows), complete=True)
    return path
