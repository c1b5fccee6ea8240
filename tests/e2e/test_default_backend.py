"""Collectives that stay on gloo are recorded, and late ranks named, without a change of what programs compute."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_runs import run_job

pytestmark = pytest.mark.timeout(120)

WORKER = "worker_default_backend.py"


def _diagnosis(records: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", "from xla_shmem.cli.main import main; main()", "postmortem", "--json"]
    environ = os.environ | {"XLA_SHMEM_RECORDS": str(records)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _trace(path: Path) -> list[dict[str, Any]]:
    lines = [line.rstrip(",") for line in path.read_text().splitlines()[1:]]
    return [event for event in map(json.loads, lines) if event["ph"] == "X"]


def test_a_rank_that_comes_late_to_gloo_is_named_and_all_executions_are_in_statistics_and_trace(tmp_path: Path) -> None:
    run = run_job(
        WORKER,
        ["comes_late"],
        ranks=2,
        results=tmp_path,
        timeout=60,
        XLA_SHMEM_OPS="none",
        XLA_SHMEM_STATS="1",
        XLA_SHMEM_TRACE=str(tmp_path / "trace.json"),
        XLA_SHMEM_DEADLINE="1",  # holds for our own collectives only
        _XLA_SHMEM_LATE_AFTER="2",
    )
    assert run.exit_code == 0, run.output
    assert [run.result(rank)["sum"] for rank in (0, 1)] == [2.0, 2.0]
    line = next(line for line in run.output.splitlines() if "no progress for" in line)
    assert re.search(
        r"all-reduce jit\S* at \S*worker_default_backend.py:\d+ \(1024 bytes\) of the default backend on PE 0 "
        r"waits for PE 1; no progress for 2 s; process 1 \(PE 1\) is running, but in no collective: it runs Python at "
        r"\S*worker_default_backend.py:\d+ in comes_late; goes on waiting$",
        line,
    )
    sums = [event for event in _trace(tmp_path / "trace.json") if event["cat"] == "all-reduce"]
    assert sorted(event["pid"] for event in sums) == [0, 0, 1, 1]
    assert all(event["args"]["backend"] == "default" and event["args"]["bytes"] == 1024 for event in sums)
    assert all(re.search(r"worker_default_backend.py:\d+$", event["args"]["source"]) for event in sums)
    assert max(event["dur"] for event in sums if event["pid"] == 0) > 4e6
    assert max(event["dur"] for event in sums if event["pid"] == 1) < 4e6
    row = r"(\d+) +2\.0 KiB +[\d.]+ +- +- +[\d.]+ +-  all-reduce \(default backend\)"
    assert re.findall(row, run.output) == ["2", "2"]


def test_a_rank_killed_outside_of_gloo_is_named_by_postmortem(tmp_path: Path) -> None:
    run = run_job(
        WORKER,
        ["is_killed"],
        ranks=2,
        results=tmp_path / "run",
        timeout=60,
        XLA_SHMEM_OPS="none",
        XLA_SHMEM_RECORDS=str(tmp_path / "records"),
    )
    assert run.exit_code != 0
    (stuck,) = _diagnosis(tmp_path / "records")["stuck"]
    assert (stuck["op"], stuck["bytes"], stuck["run"], stuck["waiting"]) == ("all-reduce", 1024, 2, [0])
    assert stuck["on_default_backend"]
    assert re.search(r"worker_default_backend.py:\d+$", stuck["source"])
    ((pe, why),) = [(missing["pe"], missing["why"]) for missing in stuck["missing"]]
    assert pe == 1
    assert "was killed or crashed" in why


@pytest.mark.parametrize(("ranks", "devices"), [(2, 1), (2, 2)])
def test_programs_have_stock_jax_bits_and_memory(tmp_path: Path, ranks: int, devices: int) -> None:
    run = run_job(
        WORKER,
        ["runs_programs"],
        ranks=ranks,
        devices=devices,
        results=tmp_path,
        timeout=110,
        XLA_SHMEM_OPS="none",
        NPROC="64" if devices > 1 else "",
    )
    assert run.exit_code == 0, run.output
    for rank in range(ranks):
        *programs, donation = run.results[rank]
        for program in programs:
            assert program["equal"] == [True] * 3, program
            assert program["calls"] > 0, program
            ours, stock = program["bytes"]
            # A word for each collective, at a multiple of 64 bytes.
            assert 0 <= ours - stock <= 64 * program["calls"], program
        assert {program["name"]: program["calls"] for program in programs} == {
            "every_op": 7,
            "loops": 3,
            "reads_before_and_behind": 2,
            "many": 12,
        }
        assert donation["ours"] == donation["stock"]


def test_ranks_need_not_agree_whether_they_record(tmp_path: Path) -> None:
    # Of the default ops the permutes and sums go to SHMEM, all else stays.
    run = run_job(WORKER, ["runs_programs", "rank 1 records nothing"], ranks=2, results=tmp_path, timeout=110)
    assert run.exit_code == 0, run.output
    calls = [{one["name"]: one.get("calls", 0) for one in run.results[rank]} for rank in (0, 1)]
    assert calls[0] == {"every_op": 3, "loops": 0, "reads_before_and_behind": 0, "many": 12, "donation": 0}
    assert set(calls[1].values()) == {0}
    for rank in (0, 1):
        assert all(all(one["equal"]) for one in run.results[rank] if one["name"] in ("loops", "many"))


def test_without_the_option_nothing_is_added(tmp_path: Path) -> None:
    run = run_job(
        WORKER,
        ["comes_late"],
        ranks=2,
        results=tmp_path,
        timeout=60,
        XLA_SHMEM_OPS="none",
        XLA_SHMEM_STATS="1",
        XLA_SHMEM_DEFAULT_RECORDS="off",
        _XLA_SHMEM_LATE_AFTER="2",
    )
    assert run.exit_code == 0, run.output
    assert "no progress for" not in run.output
    assert "default backend" not in run.output
