"""`xla-shmem compare` and `demo`: the jobs that they run, what they compute from their times, and their errors."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from long_context.compare import comparison_tables
from long_context.compare.compared_jobs import compared_jobs, read_list
from long_context.compare.comparison_picture import save_picture
from long_context.compare.rows import Row, save_json
from long_context.compare.side_by_side import Runs
from long_context.train.config import TrainConfig
from long_context.train.step_log import StepRecord
from long_context.train.throughput import step_flops
from xla_shmem.backends import PLUGIN, STOCK, Backend
from xla_shmem.cli.main import main

JOB = TrainConfig(preset="tiny", context=2, steps=21)
SECONDS = {PLUGIN: 0.5, STOCK: 1.0}


def row(config: TrainConfig = JOB, stock_loss: float = 4.0) -> Row:
    def run(backend: Backend) -> list[StepRecord]:
        loss = stock_loss if backend is STOCK else 4.0
        tflops = step_flops(config.model(), config.batch, config.sequence) / SECONDS[backend] / config.devices / 1e12
        return [
            StepRecord(step, loss, SECONDS[backend], 64, tflops_per_device=tflops, compiled=step == 0)
            for step in range(config.steps)
        ]

    return Row(config, {backend: [run(backend), run(backend)] for backend in SECONDS})


def test_every_length_is_run_on_every_mesh() -> None:
    jobs = compared_jobs(JOB, read_list("sequence", "64,128,64"), (2, 4), (1, 2))
    assert [(job.context, job.tensor, job.sequence) for job in jobs] == [
        (context, tensor, sequence) for context in (2, 4) for tensor in (1, 2) for sequence in (64, 128)
    ]
    assert {dataclasses.replace(job, context=2, tensor=1, sequence=1024) for job in jobs} == {JOB}


def test_means_are_of_steps_3_to_20_and_the_gain_is_theirs() -> None:
    """A stock step of 19 s among 18 of 1 s changes the mean and not the median; the same in step 2 changes neither."""
    runs = {backend: [list(each[0])] for backend, each in row().runs.items()}
    tflops = runs[STOCK][0][5].tflops_per_device
    for step in (2, 5):
        slow = runs[STOCK][0][step]._replace(seconds=19.0, tflops_per_device=tflops / 19)
        runs[STOCK][0][step] = slow
    found = Row(JOB, runs)
    assert found.means(STOCK) == pytest.approx((2.0, tflops * (17 + 1 / 19) / 18, 1.0, tflops))
    assert found.gain == pytest.approx(2 / ((17 + 1 / 19) / 18) - 1)
    assert found.speed_up == pytest.approx(2.0)


def _slowed(runs: Runs, turn: int, factor: float) -> dict[Backend, list[list[StepRecord]]]:
    return {
        backend: [
            [record._replace(seconds=record.seconds * factor) for record in run] if number == turn else list(run)
            for number, run in enumerate(each)
        ]
        for backend, each in runs.items()
    }


def test_the_speed_up_is_computed_within_a_round() -> None:
    """The machine is half as fast in the second round, and one stock step of the first is an outlier."""
    runs = _slowed(row().runs, turn=1, factor=2)
    runs[STOCK][0][5] = runs[STOCK][0][5]._replace(seconds=60.0)
    assert Row(JOB, runs).speed_up == pytest.approx(2.0)


def test_the_losses_of_both_transports_are_compared() -> None:
    assert row().problem() is None
    problem = row(stock_loss=4.1).problem()
    assert problem is not None
    assert "sequence 1024 on data 1 x fsdp 1 x context 2 x tensor 1: The losses of step 0 differ by 2.4e-02" in problem


def test_table_json_and_picture_say_the_same(tmp_path: Path) -> None:
    rows = [row(), row(dataclasses.replace(JOB, sequence=2048))]
    console = Console(width=80, file=(tmp_path / "table").open("w"))
    console.print(comparison_tables.table(rows))
    console.print(comparison_tables.means_table(rows))
    console.print(comparison_tables.loss_table(rows[0]))
    console.file.close()
    lines = [line.rstrip() for line in (tmp_path / "table").read_text().splitlines()]
    line, means_line = (line.split() for line in lines if line.strip().startswith("2,048"))
    assert line[:4] == ["2,048", "2", "1", "2"]
    assert " ".join(line[6:]) == "2.00x 2.00-2.00 1000.0 500.0 0e+00"
    assert means_line[:5] == [*line[:4], "1,024"]
    assert means_line[5:7] == line[4:6]
    assert " ".join(means_line[7:]) == "+100.0% 1000.0 500.0"
    losses = [line.split() for line in lines if line.endswith("0.0e+00")]
    assert losses[-1] == ["20", "4.000000", "4.000000", "0.0e+00"]
    assert [line[0] for line in losses] == ["0", "3", "6", "9", "12", "15", "18", "20"]

    save_json(tmp_path / "compare.json", {"load": [1.0]}, rows)
    report = json.loads((tmp_path / "compare.json").read_text())
    assert report["load"] == [1.0]
    assert report["rows"][1]["sequence_per_device"] == 1024
    assert report["rows"][1]["speed_up"] == pytest.approx(2.0)
    assert report["rows"][1]["gain"] == pytest.approx(1.0)
    assert report["rows"][1]["means"]["stock"] == rows[1].means(STOCK)._asdict()
    assert len(report["rows"][0]["runs"]["SHMEM"]) == 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_picture_is_written_of_one_job_and_of_several(count: int, tmp_path: Path) -> None:
    rows = [row(dataclasses.replace(JOB, sequence=1024 * number)) for number in range(1, count + 1)]
    save_picture(tmp_path / "compare.png", "title", rows)
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_the_range_of_the_rounds_is_shown_if_there_are_several() -> None:
    one = Row(JOB, {backend: runs[:1] for backend, runs in row().runs.items()})
    assert _cells(one) == ["2.00x", ""]
    runs = dict(row().runs)
    runs[STOCK] = [runs[STOCK][0], [record._replace(seconds=1.5) for record in runs[STOCK][1]]]
    assert _cells(Row(JOB, runs)) == ["2.50x", "2.00-3.00"]


def _cells(one: Row) -> list[str]:
    """The speed-up and its range."""
    return [str(*column.cells) for column in comparison_tables.table([one]).columns[6:8]]


def test_the_help_shows_the_steps_that_are_run() -> None:
    """The default of `train`, 30, was shown, and 21 steps were run."""
    result = CliRunner().invoke(main, ["compare", "--help"])
    shown = re.search(r"--steps INTEGER +Optimiser steps\. +\[default: (\d+)\]", result.stdout)
    assert shown is not None
    found: list[TrainConfig] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("long_context.cli.compare._compare", lambda name, jobs, *rest, as_json: found.extend(jobs))
        assert CliRunner().invoke(main, ["compare"]).exit_code == 0
    assert {job.steps for job in found} == {int(shown.group(1))}


def test_the_demo_is_one_job_of_compare(tmp_path: Path) -> None:
    found: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("long_context.cli.compare._compare", lambda *arguments, as_json: found.extend(arguments))
        result = CliRunner().invoke(main, ["demo", "--rounds", "3", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert found == ["demo", [TrainConfig()], tmp_path, 3, None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--context", "1,2"], "a mesh of one rank sends nothing: choose at least 2 ranks"),
        (["--context", "two"], "context is 'two'; it must be a list of numbers such as 2,4"),
        (["--sequence", "1000", "--context", "3"], "sequence 1000 does not divide over context 3"),
        (["--tensor", "4"], "kv-heads 2 does not divide over tensor 4"),
        (["--steps", "4"], "choose at least 5"),
        (["--rounds", "0"], "0 is not in the range"),
    ],
)
def test_the_error_about_a_comparison_says_how_to_fix_it(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["compare", "--output", str(tmp_path), *options])
    assert result.exit_code == 2
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == []
