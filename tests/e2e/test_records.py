"""Flight records, statistics and traces of real jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_runs import JobRun, run_job

pytestmark = pytest.mark.timeout(90)


def _run(tmp_path: Path, how: str, **environ: str) -> JobRun:
    records = {"XLA_SHMEM_RECORDS": str(tmp_path / "records"), "XLA_SHMEM_DEADLINE": "3"}
    return run_job("worker_records.py", [how], ranks=3, results=tmp_path / "run", **(records | environ))


def _postmortem(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from xla_shmem.cli.main import main; main()",
        "postmortem",
        *arguments,
    ]
    environ = {"XLA_SHMEM_RECORDS": str(tmp_path / "records"), "PATH": "/usr/bin:/bin"}
    environ["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")  # of a checkout that is not installed
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def _diagnosis(tmp_path: Path) -> dict[str, Any]:
    result = _postmortem(tmp_path, "--json")
    assert result.returncode == 1, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_a_job_that_ends_well_leaves_no_records(tmp_path: Path) -> None:
    run = _run(tmp_path, "done")
    assert run.exit_code == 0, run.output
    assert list((tmp_path / "records").iterdir()) == []
    result = _postmortem(tmp_path)
    assert result.returncode == 2
    assert "no job last" in result.stderr
    assert "Jobs that end well leave no records." in result.stderr


def test_a_killed_rank_is_named_by_the_records_it_leaves(tmp_path: Path) -> None:
    run = _run(tmp_path, "die")
    assert run.exit_code != 0
    assert run.segments == []
    assert "shows every PE" in run.line_with("xla-shmem postmortem")
    diagnosis = _diagnosis(tmp_path)
    # The two collectives of the last run may begin in any order, and one may fail before the other begins.
    begun = [status["collectives"] for status in diagnosis["pes"]]
    assert begun[1] == 6
    assert {begun[0], begun[2]} <= {7, 8}
    assert diagnosis["pes"][1]["life"] == "was killed or crashed"
    assert any("has exited" in failure for failure in diagnosis["failures"])
    missing = {(m["pe"], m["why"].split(") ")[-1]) for stuck in diagnosis["stuck"] for m in stuck["missing"]}
    assert missing == {(1, "was killed or crashed")}
    report = _postmortem(tmp_path).stdout
    assert "PE 1 never arrived: process 1" in report
    assert "jit_" in report


def test_programs_that_differ_are_said_to_by_the_error_and_by_postmortem(tmp_path: Path) -> None:
    run = _run(tmp_path, "other")
    assert run.exit_code != 0
    assert run.segments == []
    line = run.line_with(" of another program")
    assert " is in all-reduce jit" in line
    assert "all processes must run the same programs" in line
    missing = [m["why"] for stuck in _diagnosis(tmp_path)["stuck"] for m in stuck["missing"]]
    assert any(" is in all-reduce jit" in why and " of another program" in why for why in missing)


def test_statistics_and_trace_tell_what_ran(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    run = _run(tmp_path, "done", XLA_SHMEM_STATS="1", XLA_SHMEM_TRACE=str(trace))
    assert run.exit_code == 0, run.output
    for process in range(3):
        assert f"collectives of process {process}" in run.output
    line = run.line_with("all-reduce  jit_")
    assert line.split()[1:4] == ["4", "128", "B"]
    events = json.loads(trace.read_text().rstrip().rstrip(",") + "]")
    timed = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in timed} == {0, 1, 2}
    assert len(timed) == 3 * 4 * 2
    for event in timed:
        assert event["args"]["bytes"] == 32
        assert event["args"]["waited_us"] + event["args"]["moved_us"] == pytest.approx(event["dur"], abs=0.01)
    assert sum(event["args"]["moved_us"] for event in timed) > 0


def test_statistics_and_trace_are_written_after_an_interrupt(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    records = {"XLA_SHMEM_RECORDS": str(tmp_path / "records"), "XLA_SHMEM_STATS": "1", "XLA_SHMEM_TRACE": str(trace)}
    run = run_job("worker_records.py", ["interrupt"], ranks=1, results=tmp_path / "run", **records)
    assert run.exit_code == 128 + signal.SIGINT
    assert run.output.count("collectives of process 0") == 1
    events = json.loads(trace.read_text().rstrip().rstrip(",") + "]")
    assert len([event for event in events if event["ph"] == "X"]) == 3 * 2


def test_a_job_that_ends_well_leaves_no_directory_either(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run = run_job("worker_records.py", ["done"], ranks=2, results=tmp_path / "run", TMPDIR=str(temporary))
    assert run.exit_code == 0, run.output
    assert list(temporary.glob("xla-shmem-*")) == []
