"""`xla-shmem compare` runs its variants: the transports of each, and rings that send, wait, or do nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from job_runs import QUICK_COMPILATION, abandoned_segments, left_behind, ranks_of

from long_context.compare.side_by_side import assignments, run_folder
from long_context.compare.variants import Variant
from xla_shmem.launch.launcher import GRACE

# Each of four jobs compiles its step, two of them three times.
pytestmark = pytest.mark.timeout(900)

JOB = ("--preset=tiny", "--layers=1", "--width=16", "--heads=2", "--kv-heads=2", "--hidden=16", "--seq=64")
STEPS = 6
# Tests in the background of a shell may have SIGINT ignored, which children inherit.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')"
)
COMPARE = (sys.executable, "-c", PROGRAM, "compare", *JOB, "--context=2", f"--steps={STEPS}", "--ring-steps=3")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compare")
    before = abandoned_segments()
    environ = {**os.environ, "XLA_FLAGS": QUICK_COMPILATION}
    ended = subprocess.run([*COMPARE, f"--output={out}"], env=environ, capture_output=True, text=True, timeout=800)
    assert ended.returncode == 0, ended.stderr
    assert "default ring" in ended.stdout
    assert left_behind(before) == set()
    return out


def carried(out: Path, variant: Variant) -> list[Counter[tuple[str, str]]]:
    """For each compiled step of the variant, the number of collectives of an op on each backend."""
    reports = assignments(run_folder(out / "64-cp2-tp1", variant, 1))
    return [Counter((record["op"], record["lowered"]) for record in report.records) for report in reports]


@pytest.mark.slow
def test_only_the_blocks_change_their_transport_and_only_one_of_three_steps_sends_them(compared: Path) -> None:
    (stock,) = carried(compared, Variant.STOCK)
    (shmem,) = carried(compared, Variant.SHMEM)
    rings, sums = shmem["collective-permute", "NVSHMEM"], shmem["all-reduce", "NVSHMEM"]
    assert rings > 0
    assert sums > 0
    assert {where for _, where in shmem} == {"NVSHMEM"}
    assert {where for _, where in stock} == {"DEFAULT"}
    for variant, where in ((Variant.RING_ON_SHMEM, "NVSHMEM"), (Variant.RING_ON_STOCK, "DEFAULT")):
        steps = carried(compared, variant)
        on_shmem = {("collective-permute", "NVSHMEM"): rings, ("all-reduce", "NVSHMEM"): sums}
        expected = [
            {("collective-permute", where): rings, ("all-reduce", "NVSHMEM"): sums},
            on_shmem,  # of single elements
            {("all-reduce", "NVSHMEM"): sums},
        ]
        assert len(steps) == len(expected)
        assert all(steps.count(Counter(each)) == expected.count(each) for each in expected)


@pytest.mark.slow
def test_the_sending_step_trains_as_without_its_ablations(compared: Path) -> None:
    (row,) = json.loads((compared / "compare.json").read_text())["rows"]
    losses = {name: [record["loss"] for record in runs[0]] for name, runs in row["runs"].items()}
    assert losses["ring on SHMEM"] == losses["SHMEM"]
    assert losses["ring on stock"] == pytest.approx(losses["SHMEM"], rel=1e-6)
    for name, runs in row["ablations"].items():
        records = runs["ring on SHMEM"][0]
        assert [record["step"] for record in records] == list(range(STEPS)), name
        assert [record["loss"] for record in records] != losses["ring on SHMEM"], name
    assert len(losses["SHMEM"]) == STEPS


@pytest.mark.slow
def test_every_interval_holds_its_median(compared: Path) -> None:
    (row,) = json.loads((compared / "compare.json").read_text())["rows"]
    intervals: list[dict[str, Any]] = [part for ring in row["ring_s"].values() for part in ring.values()]
    assert len(intervals) == 6
    for interval in intervals:
        assert interval["low"] <= interval["median"] <= interval["high"]


def test_ctrl_c_does_not_wait_for_ranks_that_compile(tmp_path: Path) -> None:
    before = abandoned_segments()
    with subprocess.Popen([*COMPARE, f"--output={tmp_path}"], stderr=subprocess.PIPE, text=True) as command:
        try:
            give_up = time.monotonic() + 120
            while not ranks_of(tmp_path) and time.monotonic() < give_up:
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
