"""`xla-shmem compare`: the jobs that it runs, what it computes from their times, and its errors."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from xla_shmem.cli.main import main
from xla_shmem.compare import report as compare_report
from xla_shmem.compare.plan import plan, read_list
from xla_shmem.compare.results import RING_TURN, Row, median_interval, save_json
from xla_shmem.compare.ring_kinds import Ring
from xla_shmem.compare.side_by_side import Runs
from xla_shmem.compare.variants import Variant
from xla_shmem.options import resolve
from xla_shmem.train.config import TrainConfig
from xla_shmem.train.job_run import TRAINER
from xla_shmem.train.step_log import StepRecord
from xla_shmem.train.throughput import step_flops

JOB = TrainConfig(preset="tiny", context=2, steps=21)
SECONDS = {Variant.SHMEM: 0.5, Variant.STOCK: 1.0, Variant.RING_ON_SHMEM: 0.5, Variant.RING_ON_STOCK: 0.8}
ABLATION_SECONDS = {
    Ring.WAITING: {Variant.RING_ON_SHMEM: 0.46, Variant.RING_ON_STOCK: 0.45},
    Ring.SILENT: {Variant.RING_ON_SHMEM: 0.4, Variant.RING_ON_STOCK: 0.4},
}


def row(config: TrainConfig = JOB, stock_loss: float = 4.0) -> Row:
    def run(variant: Variant, seconds: dict[Variant, float]) -> list[StepRecord]:
        loss = stock_loss if variant is Variant.STOCK else 4.0
        tflops = step_flops(config.model(), config.batch, config.sequence) / seconds[variant] / config.devices / 1e12
        return [
            StepRecord(step, loss, seconds[variant], 64, tflops_per_device=tflops, compiled=step == 0)
            for step in range(config.steps)
        ]

    runs = {variant: [run(variant, SECONDS), run(variant, SECONDS)] for variant in Variant}
    ablations = {
        ring: {variant: [run(variant, seconds)] * 2 for variant in seconds}
        for ring, seconds in ABLATION_SECONDS.items()
    }
    return Row(config, runs, ablations)


def test_every_length_is_run_on_every_mesh() -> None:
    jobs = plan(JOB, read_list("sequence", "64,128,64"), (2, 4), (1, 2))
    assert [(job.context, job.tensor, job.sequence) for job in jobs] == [
        (context, tensor, sequence) for context in (2, 4) for tensor in (1, 2) for sequence in (64, 128)
    ]
    assert {dataclasses.replace(job, context=2, tensor=1, sequence=1024) for job in jobs} == {JOB}


def test_the_time_of_the_ring_is_a_step_minus_a_silent_one_and_consists_of_transfers_and_waits() -> None:
    assert row().exposed(Variant.SHMEM) == pytest.approx((0.1, 0.1, 0.1))
    assert row().exposed(Variant.STOCK) == pytest.approx((0.4, 0.4, 0.4))
    assert row().transfers(Variant.SHMEM) == pytest.approx((0.04, 0.04, 0.04))
    assert row().transfers(Variant.STOCK) == pytest.approx((0.35, 0.35, 0.35))
    assert row().waits(Variant.SHMEM) == pytest.approx((0.06, 0.06, 0.06))
    assert row().speed_up == pytest.approx(2.0)


def test_means_are_of_steps_3_to_20_and_the_gain_is_theirs() -> None:
    """A stock step of 19 s among 18 of 1 s changes the mean and not the median; the same in step 2 changes neither."""
    runs = {variant: [list(each[0])] for variant, each in row().runs.items()}
    tflops = runs[Variant.STOCK][0][5].tflops_per_device
    for step in (2, 5):
        slow = runs[Variant.STOCK][0][step]._replace(seconds=19.0, tflops_per_device=tflops / 19)
        runs[Variant.STOCK][0][step] = slow
    found = Row(JOB, runs, row().ablations)
    assert found.means(Variant.STOCK) == pytest.approx((2.0, tflops * (17 + 1 / 19) / 18, 1.0, tflops))
    assert found.gain == pytest.approx(2 / ((17 + 1 / 19) / 18) - 1)
    assert found.speed_up == pytest.approx(2.0)


def _slowed(runs: Runs, turn: int, factor: float) -> dict[Variant, list[list[StepRecord]]]:
    return {
        variant: [
            [record._replace(seconds=record.seconds * factor) for record in run] if number == turn else list(run)
            for number, run in enumerate(each)
        ]
        for variant, each in runs.items()
    }


def test_the_speed_up_is_computed_within_a_round() -> None:
    """The machine is half as fast in the second round, and one stock step of the first is an outlier."""
    runs = _slowed(row().runs, turn=1, factor=2)
    runs[Variant.STOCK][0][5] = runs[Variant.STOCK][0][5]._replace(seconds=60.0)
    assert Row(JOB, runs, row().ablations).speed_up == pytest.approx(2.0)


def test_the_time_of_the_ring_is_computed_within_a_turn_of_steps_without_the_first_steps() -> None:
    """The machine gets slower with every turn; the first steps compile and would change the median."""
    drift = [0.1 * step if step >= 3 else 1000.0 * (step % 2) for step in range(JOB.steps)]

    def drifting(runs: Runs, since: int) -> Runs:
        return {
            variant: [[x._replace(seconds=x.seconds + drift[x.step] * (x.step >= since)) for x in run] for run in each]
            for variant, each in runs.items()
        }

    ablations = {ring: drifting(runs, since=3) for ring, runs in row().ablations.items()}
    measured = Row(JOB, drifting(row().runs, since=0), ablations)
    assert measured.exposed(Variant.STOCK) == pytest.approx((0.4, 0.4, 0.4))
    assert measured.transfers(Variant.STOCK) == pytest.approx((0.35, 0.35, 0.35))


def test_the_interval_contains_the_median_with_its_confidence() -> None:
    """Draws of 40 from a skewed distribution whose median is 1: at least 95 % of the intervals contain it."""
    draws = np.random.default_rng(5).exponential(1 / math.log(2), (2000, 40))
    intervals = [median_interval(draw.tolist()) for draw in draws]
    held = sum(each.low <= 1 <= each.high for each in intervals) / len(intervals)
    assert 0.94 < held < 0.98
    assert all(each.low <= each.median <= each.high for each in intervals)
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)  # too few for 95 %


def test_a_time_that_cannot_be_told_from_noise_is_not_shown_as_a_number(tmp_path: Path) -> None:
    noisy = row()
    waiting = noisy.ablations[Ring.WAITING][Variant.RING_ON_SHMEM][0]
    for record in list(waiting):
        waiting[record.step] = record._replace(seconds=0.49 + 0.02 * (record.step % 2))
    assert not noisy.transfers(Variant.SHMEM).above_noise
    assert noisy.transfers(Variant.STOCK).above_noise
    console = Console(width=200, file=(tmp_path / "table").open("w"))
    console.print(compare_report.ring_table([noisy]))
    console.file.close()
    (line,) = [line for line in (tmp_path / "table").read_text().splitlines() if line.strip().startswith("1,024")]
    assert "350.0 (350.0 to 350.0)" in line
    assert "noise (-10.0 to 10.0)" in line


def test_the_losses_of_both_transports_are_compared() -> None:
    assert row().problem() is None
    problem = row(stock_loss=4.1).problem()
    assert problem is not None
    assert "sequence 1024 on data 1 x fsdp 1 x context 2 x tensor 1: The losses of step 0 differ by 2.4e-02" in problem


def test_variants_differ_in_flag_ops_and_program() -> None:
    assert Variant.SHMEM.program == Variant.STOCK.program == TRAINER
    assert Variant.RING_ON_SHMEM.program == Variant.RING_ON_STOCK.program != TRAINER
    assert [variant for variant in Variant if not variant.flag] == [Variant.STOCK]
    moved = {variant: dict(resolve({}, {"ops": variant.ops}).ops) for variant in RING_TURN}
    assert moved[Variant.RING_ON_SHMEM] == {"all-reduce": None, "collective-permute": None}  # as without the option
    assert moved[Variant.RING_ON_STOCK] == {"all-reduce": None, "collective-permute": 16}


def test_table_json_and_picture_say_the_same(tmp_path: Path) -> None:
    rows = [row(), row(dataclasses.replace(JOB, sequence=2048))]
    console = Console(width=200, file=(tmp_path / "table").open("w"))
    console.print(compare_report.table(rows))
    console.print(compare_report.means_table(rows))
    console.print(compare_report.ring_table(rows))
    console.file.close()
    lines = (tmp_path / "table").read_text().splitlines()
    line, means_line, ring_line = (line.split() for line in lines if line.strip().startswith("2,048"))
    assert line[:5] == ["2,048", "2", "1", "2", "1,024"]
    assert " ".join(line[7:]) == "2.00x 1000.0 500.0 0e+00"
    assert means_line[:7] == line[:7]
    assert " ".join(means_line[7:]) == "+100.0% 1000.0 500.0"
    assert ring_line[:3] == ["2,048", "2", "1"]
    added = "400.0 (400.0 to 400.0) 100.0 (100.0 to 100.0)"
    assert " ".join(ring_line[3:]) == f"{added} 350.0 (350.0 to 350.0) 40.0 (40.0 to 40.0)"

    save_json(tmp_path / "compare.json", {"load": [1.0]}, rows)
    report = json.loads((tmp_path / "compare.json").read_text())
    assert report["load"] == [1.0]
    assert report["rows"][1]["sequence_per_device"] == 1024
    assert report["rows"][1]["speed_up"] == pytest.approx(2.0)
    assert report["rows"][1]["gain"] == pytest.approx(1.0)
    assert report["rows"][1]["means"]["stock"] == rows[1].means(Variant.STOCK)._asdict()
    assert len(report["rows"][0]["ablations"]["silent"]["ring on stock"]) == 2
    ring = report["rows"][0]["ring_s"]["stock"]
    assert ring["exposed"] == pytest.approx({"median": 0.4, "low": 0.4, "high": 0.4})
    assert ring["transfers"]["median"] == pytest.approx(0.35)
    assert ring["waits"]["median"] == pytest.approx(0.05)

    compare_report.save_picture(tmp_path / "compare.png", "title", rows)
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--context", "1,2"], "context is 1; a ring of one rank sends nothing: choose at least 2"),
        (["--context", "two"], "context is 'two'; it must be a list of numbers such as 2,4"),
        (["--sequence", "1000", "--context", "3"], "sequence 1000 does not divide over context 3"),
        (["--tensor", "4"], "kv-heads 2 does not divide over tensor 4"),
        (["--attention", "gather"], "attention is gather"),
        (["--steps", "4"], "choose at least 5"),
        (["--rounds", "0"], "0 is not in the range"),
    ],
)
def test_the_error_about_a_comparison_says_how_to_fix_it(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["compare", "--output", str(tmp_path), *options])
    assert result.exit_code == 2
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == []
