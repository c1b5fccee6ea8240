"""`xla-shmem bench` as a user runs it: real jobs, small sizes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from job_runs import HERE, abandoned_segments, environment, left_behind

from xla_shmem.bench import jobs, measure
from xla_shmem.bench.plan import SAME_SHAPE_OPS, Plan
from xla_shmem.bench.results import Row, total_wrong
from xla_shmem.cli.main import main
from xla_shmem.options.values import OPS

# Tests in the background of a shell may have SIGINT ignored, which children inherit.
_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')"
)
_BENCH = (sys.executable, "-c", _PROGRAM, "bench")
_MARK = "BENCH_TEST_RUN"

# A size of one element for each PE, one that fits in a slot, one that takes several chunks.
_SIZES = ("-b", "16", "-e", "1M", "-f", "256")

_REFUSED_BY_STOCK = ("collective-broadcast", "ragged-all-to-all")


@dataclass(frozen=True)
class _Run:
    """A running benchmark; the environment of all its processes has a mark."""

    process: subprocess.Popen[str]
    mark: str

    def wait_for_first_row(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith("#"):
                return
        raise AssertionError("it ended before it measured anything")

    def processes(self) -> dict[int, list[str]]:
        """Process ids and command lines of its remaining processes, including itself."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{_MARK}={self.mark}".encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_text().split("\0")
            except OSError:  # another user's process, or exited
                continue
        return found


def _bench(results: Path, *options: str) -> _Run:
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [*_BENCH, *options],
        env=environment(results, {_MARK: mark}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return _Run(process, mark)


def _measured(plan: Plan) -> list[Row]:
    plan.validate()
    with jobs.running_jobs(plan) as running:
        return list(measure.measure(plan, running))


def test_every_op_is_measured_and_right(tmp_path: Path) -> None:
    report, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    before = abandoned_segments()
    files = ("--output", str(report), "--png", str(picture))
    run = _bench(tmp_path, "--op", "all", *_SIZES, "--rounds", "1", "--iterations", "3", *files)
    out, err = run.process.communicate(timeout=150)
    assert run.process.returncode == 0, f"{out}\n{err}"
    rows = json.loads(report.read_text())["rows"]
    sizes = (16, 4096, 1 << 20)
    assert [(row["op"], row["bytes"]) for row in rows] == [(op, size) for op in OPS for size in sizes]
    for row in rows:
        assert row["variants"]["shmem"]["wrong"] == 0, row
        assert row["variants"]["stock"].get("wrong") == (None if row["op"] in _REFUSED_BY_STOCK else 0), row
    lines = [line for line in out.splitlines() if not line.startswith("#")]
    assert len(lines) == 3 * (2 * len(OPS) - len(_REFUSED_BY_STOCK))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert left_behind(before) == set()
    assert not run.processes()


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(
            Plan(processes=2, devices_per_process=2, group=2, ops=OPS, dtype="bf16", misalign=2),
            marks=pytest.mark.slow,
        ),
        Plan(processes=1, devices_per_process=4, ops=OPS),
        pytest.param(Plan(processes=2, ops=SAME_SHAPE_OPS, in_place=True), marks=pytest.mark.slow),
        Plan(processes=3, ops=("all-reduce",), reduction="max", dtype="s8", misalign=1),
    ],
    ids=["groups of several devices, misaligned bf16", "one process", "in place", "3 processes, maximum of s8"],
)
def test_results_are_right_in_other_forms(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    _clean_environment(monkeypatch)
    small = Plan(**{**vars(plan), "min_bytes": 64, "max_bytes": 1 << 20, "factor": 128, "rounds": 1, "iterations": 3})
    rows = _measured(small)
    assert {row.cell.op for row in rows if row.times["shmem"].us} == set(plan.ops)
    assert total_wrong(rows) == 0


def test_one_process_may_have_all_devices_of_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    _clean_environment(monkeypatch)
    plan = Plan(processes=2, ops=("all-reduce", "all-gather"), min_bytes=4096, max_bytes=4096, rounds=1, iterations=3)
    starts = {
        "shmem": jobs.launched(plan, {**os.environ, "XLA_SHMEM_OPS": "all"}),
        "alone": jobs.launched(plan, os.environ, flag=False, one_process=True),
    }
    with jobs.connected_jobs(starts) as running:
        rows = list(measure.measure(plan, running))
    assert total_wrong(rows) == 0
    for row in rows:
        assert len(row.times["alone"].us) == len(row.times["shmem"].us) == 2
        assert (row.records["shmem"]["lowered"], row.records["alone"]["lowered"]) == ("NVSHMEM", "DEFAULT")


def test_wrong_results_are_counted_and_the_exit_code_is_1(monkeypatch: pytest.MonkeyPatch) -> None:
    _clean_environment(monkeypatch)
    monkeypatch.setattr(jobs, "WORKER", (sys.executable, str(HERE / "worker_bench.py")))
    options = (
        "--op",
        "permute",
        "--op",
        "all-reduce",
        "-b",
        "4K",
        "-e",
        "4K",
        "--rounds",
        "1",
        "--iterations",
        "3",
        "--vs",
        "none",
    )
    result = CliRunner().invoke(main, ["bench", *options])
    assert result.exit_code == 1
    # On each of two ranks, before the timed programs and after them.
    assert [line.split()[11] for line in result.stdout.splitlines() if not line.startswith("#")] == ["4", "4"]
    assert "8 elements are wrong." in result.stderr


def test_ctrl_c_leaves_nothing_and_keeps_what_was_measured(tmp_path: Path) -> None:
    report = tmp_path / "bench.json"
    before = abandoned_segments()
    run = _bench(tmp_path, "--op", "permute", "--rounds", "5", "--output", str(report))
    run.wait_for_first_row()
    run.process.send_signal(signal.SIGINT)
    _, err = run.process.communicate(timeout=60)
    assert run.process.returncode == 130, err
    assert "Stopped; all ranks have ended." in err
    assert json.loads(report.read_text())["rows"]
    assert left_behind(before) == set()
    assert not run.processes()


def test_a_killed_rank_ends_the_run_with_the_output_of_its_job(tmp_path: Path) -> None:
    before = abandoned_segments()
    run = _bench(tmp_path, "--op", "permute", "--rounds", "5")
    run.wait_for_first_row()
    rank = next(pid for pid, command in run.processes().items() if command[1:3] == ["-m", "xla_shmem.bench.worker"])
    os.kill(rank, signal.SIGKILL)
    _, err = run.process.communicate(timeout=60)
    assert run.process.returncode == 1
    assert "the shmem job lost rank" in err
    assert "was killed by SIGKILL" in err
    assert left_behind(before) == set()
    assert not run.processes()


def test_ranks_end_with_their_coordinator(tmp_path: Path) -> None:
    before = abandoned_segments()
    run = _bench(tmp_path, "--op", "permute", "--rounds", "5")
    run.wait_for_first_row()
    run.process.kill()
    run.process.communicate(timeout=60)
    give_up = time.monotonic() + 30
    while run.processes() and time.monotonic() < give_up:
        time.sleep(0.1)
    assert not run.processes()
    assert left_behind(before) == set()


def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `job_runs.environment`, for jobs that this process starts itself."""
    for name in set(os.environ) - set(environment(Path(), {})):
        monkeypatch.delenv(name)
