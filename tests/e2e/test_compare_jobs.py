"""`xla-shmem compare` and `benchmarks/ring_benchmark.py` run their backends: what carries which collectives of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from job_runs import QUICK_COMPILATION, abandoned_segments, left_behind, ranks_of

from long_context.compare.side_by_side import dump_folder
from ring_benchmark import ON_SHMEM, ON_STOCK, Ring, read_steps
from xla_shmem.backends import PLUGIN, STOCK, Backend, collectives
from xla_shmem.launch.launcher import GRACE

# Each of two jobs compiles its step, those of the ring three times.
pytestmark = pytest.mark.timeout(900)

STEPS = 6
JOB = (
    *("--preset=tiny", "--layers=1", "--width=16", "--heads=2", "--kv-heads=2", "--hidden=16", "--seq=64"),
    *("--context=2", f"--steps={STEPS}"),
)
# Tests in the background of a shell may have SIGINT ignored, which children inherit.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')"
)
COMPARE = (sys.executable, "-c", PROGRAM, "compare", *JOB)
RING = (sys.executable, str(Path(__file__).parents[2] / "benchmarks" / "ring_benchmark.py"), "measure", *JOB)


def ran(command: Sequence[str], out: Path) -> str:
    """Runs it to its end; returns what it prints."""
    before = abandoned_segments()
    environ = {**os.environ, "XLA_FLAGS": QUICK_COMPILATION}
    ended = subprocess.run([*command, f"--output={out}"], env=environ, capture_output=True, text=True, timeout=800)
    assert ended.returncode == 0, ended.stderr
    assert left_behind(before) == set()
    return ended.stdout


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare")
    printed = ran(COMPARE, out)
    assert "collective-permute" in printed, "the decisions for a single job"
    assert "Largest relative difference" in printed
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")
    return out


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ring")
    assert "transfers" in ran(RING, out)
    return out


def carried(out: Path, backend: Backend) -> list[Counter[tuple[str, str]]]:
    """For each compiled step of the backend, the number of collectives of an op on each transport."""
    reports = collectives(dump_folder(out, backend, 1))
    return [Counter((record["op"], record["lowered"]) for record in report.records) for report in reports]


@pytest.mark.slow
def test_one_run_is_on_shmem_and_the_other_is_not_and_both_learn_the_same(compared: Path) -> None:
    (stock,) = carried(compared / "64-cp2-tp1", STOCK)
    (moved,) = carried(compared / "64-cp2-tp1", PLUGIN)
    assert {where for _, where in moved} == {"NVSHMEM"}
    assert {where for _, where in stock} == {"DEFAULT"}
    assert {op for op, _ in moved} == {op for op, _ in stock} == {"all-reduce", "collective-permute"}
    (row,) = json.loads((compared / "compare.json").read_text())["rows"]
    losses = {name: [record["loss"] for record in runs[0]] for name, runs in row["runs"].items()}
    assert len(losses["SHMEM"]) == STEPS
    assert losses["stock"] == pytest.approx(losses["SHMEM"], rel=1e-6)


@pytest.mark.slow
def test_only_the_blocks_change_their_transport_and_only_one_of_three_steps_sends_them(
    compared: Path, rings: Path
) -> None:
    (moved,) = carried(compared / "64-cp2-tp1", PLUGIN)
    blocks, sums = moved["collective-permute", "NVSHMEM"], moved["all-reduce", "NVSHMEM"]
    for backend, where in ((ON_SHMEM, "NVSHMEM"), (ON_STOCK, "DEFAULT")):
        steps = carried(rings, backend)
        on_shmem = {("collective-permute", "NVSHMEM"): blocks, ("all-reduce", "NVSHMEM"): sums}
        expected = [
            {("collective-permute", where): blocks, ("all-reduce", "NVSHMEM"): sums},
            on_shmem,  # of single elements
            {("all-reduce", "NVSHMEM"): sums},
        ]
        assert len(steps) == len(expected)
        assert all(steps.count(Counter(each)) == expected.count(each) for each in expected)


@pytest.mark.slow
def test_the_sending_step_trains_as_without_the_others(compared: Path, rings: Path) -> None:
    (row,) = json.loads((compared / "compare.json").read_text())["rows"]
    losses = [record["loss"] for record in row["runs"]["SHMEM"][0]]
    for backend in (ON_SHMEM, ON_STOCK):
        found = {ring: [record.loss for record in runs[0]] for ring, runs in read_steps(rings, backend, 1).items()}
        assert found[Ring.SENDING] == pytest.approx(losses, rel=1e-6)
        for ring in (Ring.WAITING, Ring.SILENT):
            assert len(found[ring]) == STEPS
            assert found[ring] != found[Ring.SENDING]


@pytest.mark.slow
def test_every_interval_holds_its_median(rings: Path) -> None:
    found = json.loads((rings / "ring.json").read_text())
    intervals: list[dict[str, Any]] = [part for ring in found.values() for part in ring.values()]
    assert len(intervals) == 6
    for interval in intervals:
        assert interval["low"] <= interval["median"] <= interval["high"]


def test_ctrl_c_does_not_wait_for_ranks_that_compile(tmp_path: Path) -> None:
    before = abandoned_segments()
    with subprocess.Popen([*COMPARE, f"--output={tmp_path}"], stderr=subprocess.PIPE, text=True) as command:
        try:
            give_up = time.monotonic() + 120
            while len(ranks_of(tmp_path)) < 2 and time.monotonic() < give_up:
                time.sleep(0.1)
            assert len(ranks_of(tmp_path)) == 2
            command.send_signal(signal.SIGINT)
            asked = time.monotonic()
            _, errors = command.communicate(timeout=60)
        finally:
            command.kill()
    assert time.monotonic() - asked < 2 * GRACE + 10
    assert command.returncode == 130, errors
    assert "Stopped; all ranks have ended." in errors
    assert ranks_of(tmp_path) == []
    assert left_behind(before) == set()
