"""`xla-shmem tune --launcher` on several hosts: groups that cross hosts are measured divided, and the table decides."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from run_on_hosts import hosts_command, ranks_command

from xla_shmem.launch.launcher_process import LAUNCHER
from xla_shmem.options import tuning_table as tables
from xla_shmem.options.tuning_table import Measured, TunedRow

pytestmark = pytest.mark.timeout(300)

_CELLS = ("--op=all-reduce", "--min-bytes=8", "--max-bytes=64K", "--step-factor=8192", "--iterations=4", "--rounds=2")


def _tune(*options: str) -> subprocess.CompletedProcess[str]:
    launcher = ["--launcher", shlex.join(ranks_command(4)), "-n4", "--platform=cpu"]
    command = [*hosts_command([2, 2], limit=120, between=True), *LAUNCHER[:-1], "tune", *launcher, *_CELLS, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)


def _with_times(row: TunedRow, **us: float) -> TunedRow:
    times: dict[str, Any] = {name: Measured(time, time, time, 4) for name, time in us.items()}
    return dataclasses.replace(row, **times)


def test_divided_collectives_are_measured_and_a_job_decides_by_the_table(tmp_path: Path) -> None:
    path, findings = tmp_path / "tuning.json", tmp_path / "verify.json"
    measured = _tune("--groups=2,4", f"--output={path}")
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert "# ranks: 2 on host0, 2 on host1" in measured.stdout
    table = tables.load(path)
    assert [(row.op, row.group, row.domains, row.bytes) for row in table.rows] == [
        ("all-reduce", 2, 1, 8),
        ("all-reduce", 2, 1, 65536),
        ("all-reduce", 4, 2, 8),
        ("all-reduce", 4, 2, 65536),
    ]
    assert all(row.default is not None and row.nvshmem.programs == 4 for row in table.rows)
    assert table.measured["hosts"] == {"host0": 2, "host1": 2}

    # Times that are known, against the model, which divides both; and the opposite for groups of one host.
    within_small, within_large, small, large = table.rows
    rows = (
        _with_times(within_small, nvshmem=1.0, default=9.0),
        _with_times(within_large, nvshmem=9.0, default=1.0),
        _with_times(small, nvshmem=9.0, default=1.0),
        _with_times(large, nvshmem=1.0, default=9.0),
    )
    tables.save(path, dataclasses.replace(table, rows=rows), complete=True)
    verified = _tune("--groups=2,4", "--verify", f"--tuning={path}", f"--output={findings}")
    assert verified.returncode in (0, 1), verified.stdout + verified.stderr
    found = {(row["group"], row["bytes"]): row["backend"] for row in json.loads(findings.read_text())["rows"]}
    assert found == {(2, 8): "NVSHMEM", (2, 65536): "DEFAULT", (4, 8): "DEFAULT", (4, 65536): "HIERARCHICAL"}


def test_a_table_of_other_hosts_is_not_verified(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    time = Measured(1.0, 1.0, 1.0, 4)
    facts = {"CPU": "another one"}
    tables.save(
        path, tables.Table("cpu", facts, {}, (TunedRow("all-reduce", "f32", 4, 8, time, time, 2),)), complete=True
    )
    refused = _tune("--verify", f"--tuning={path}", "--groups=4")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert f"{path} was measured with CPU another one" in " ".join(refused.stderr.split())
