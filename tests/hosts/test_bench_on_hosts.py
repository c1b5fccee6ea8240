"""`xla-shmem bench --launcher` on several hosts: its ranks reach it over the network only."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from run_on_hosts import hosts_command, ranks_command

from xla_shmem.launch.launcher_process import LAUNCHER

pytestmark = pytest.mark.timeout(150)

_WHOLE = "XLA_SHMEM_HIERARCHICAL=off"


def _bench(*options: str) -> list[str]:
    return [*LAUNCHER[:-1], "bench", "--launcher", shlex.join(ranks_command(4)), "--platform", "cpu", *options]


def test_divided_collectives_whole_ones_and_stock_are_measured_and_right(tmp_path: Path) -> None:
    ops = [f"--op={op}" for op in ("permute", "all-reduce", "broadcast")]
    sizes = ["--min-bytes=64K", "--max-bytes=64K", "--iterations=4", "--rounds=2"]
    found = tmp_path / "bench.json"
    options = [*ops, *sizes, "-n4", f"--vs=stock,{_WHOLE}", f"--output={found}"]
    command = [*hosts_command([2, 2], limit=120, between=True), *_bench(*options)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "ranks: 2 on host0, 2 on host1" in run.stdout
    report = json.loads(found.read_text())
    assert report["hosts"] == {"host0": 2, "host1": 2}
    rows = {row["op"]: row["variants"] for row in report["rows"]}
    assert set(rows) == {"collective-permute", "all-reduce", "collective-broadcast"}
    for op, variants in rows.items():
        assert list(variants) == ["shmem", "stock", _WHOLE]
        # XLA:CPU has no broadcast. So neither stock JAX can run it, nor a whole one that crosses hosts.
        able = ["shmem"] if op == "collective-broadcast" else list(variants)
        assert {name: times["wrong"] for name, times in variants.items() if "wrong" in times} == dict.fromkeys(able, 0)
        # Not above zero: a time is the difference of two programs, and other work may take longer.
        assert all(len(variants[name]["us"]) == 4 for name in able)


def test_another_number_of_ranks_than_the_launcher_s_is_an_error() -> None:
    command = [*hosts_command([2, 2], limit=120, between=True), *_bench("-n2")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert run.returncode == 1
    assert "has 4 ranks, and --num-ranks is 2" in run.stderr
