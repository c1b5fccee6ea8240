"""Makes tuning tables for tests."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from xla_shmem.options import fingerprint, resolve
from xla_shmem.options import tuning_table as table
from xla_shmem.options.tuning_table import Measured, Table, TunedRow


def times(us: float, within: float = 0.0) -> Measured:
    """Returns times with median `us` and the interval `us` ± `within`."""
    return Measured(us, us - within, us + within, 18)


def row(op: str, bytes: int, nvshmem: float, default: float | None, **other: Any) -> TunedRow:
    """Returns a row; by default f32 in groups of 2. `other` changes its fields."""
    on_default = None if default is None else times(default)
    plain = TunedRow(op, "f32", 2, bytes, times(nvshmem), on_default)
    return dataclasses.replace(plain, **other)


def here(*rows: TunedRow, platform: str = "cpu") -> Table:
    """Returns a table that is valid on this machine, with default options."""
    found = fingerprint.fingerprint(vars(resolve({}, {})), platform)
    return Table(platform, found, {"date": "2026-11-21", "load": [0.1]}, rows)


def written(path: Path, *rows: TunedRow, platform: str = "cpu") -> Path:
    """Saves such a table and returns its path."""
    table.save(path, here(*rows, platform=platform), complete=True)
    return path
