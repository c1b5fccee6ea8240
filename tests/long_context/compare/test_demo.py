"""The demo: its comparison and its errors. `make demo` runs the job itself."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from long_context.compare import demo_report
from long_context.compare.side_by_side import disagreement, loss_differences
from long_context.compare.variants import Variant
from long_context.train.config import TrainConfig
from long_context.train.step_log import StepRecord
from xla_shmem.cli.main import main
from xla_shmem.launch.launcher_process import cpu_environment
from xla_shmem.xla_flags import FLAG, MARKER


def _run(*losses: float, seconds: float = 0.5) -> list[StepRecord]:
    return [StepRecord(step, loss, seconds, 64) for step, loss in enumerate(losses)]


def test_equal_losses_agree() -> None:
    runs = {Variant.SHMEM: [_run(4.0, 3.0)], Variant.STOCK: [_run(4.0, 3.0)]}
    assert loss_differences(runs) == [0.0, 0.0]
    assert disagreement([0.0, 0.0]) is None


def test_a_loss_beyond_the_tolerance_is_named_by_its_step() -> None:
    runs = {Variant.SHMEM: [_run(4.0, 3.003)], Variant.STOCK: [_run(4.0, 3.0)]}
    sentence = disagreement(loss_differences(runs))
    assert sentence is not None
    assert "step 1" in sentence
    assert "1.0e-03" in sentence


def test_the_largest_difference_of_all_rounds_counts() -> None:
    runs = {Variant.SHMEM: [_run(2.0), _run(2.1)], Variant.STOCK: [_run(2.0), _run(2.0)]}
    assert loss_differences(runs) == [pytest.approx(0.05)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_never_agrees(bad: float) -> None:
    runs = {Variant.SHMEM: [_run(bad)], Variant.STOCK: [_run(bad)]}
    assert disagreement(loss_differences(runs)) == "The loss of step 0 is not a finite number."


def test_speed_up_is_stock_over_shmem_of_the_medians() -> None:
    steps = [5.0] * 30
    runs = {Variant.SHMEM: [_run(*steps, seconds=0.2)], Variant.STOCK: [_run(*steps, seconds=0.5)]}
    assert demo_report.speed_ups(runs) == [pytest.approx(2.5)]


def test_only_the_shmem_run_has_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"--xla_cpu_enable_fast_math=false {FLAG}=true")
    monkeypatch.setenv(MARKER, "1")
    shmem, stock = (cpu_environment(os.environ, flag=flag) for flag in (True, False))
    assert f"{FLAG}=true" in shmem["XLA_FLAGS"]
    assert FLAG not in stock.get("XLA_FLAGS", "")
    assert stock.get(MARKER) != "1"
    assert "--xla_cpu_enable_fast_math=false" in stock["XLA_FLAGS"]


def test_a_picture_is_written(tmp_path: Path) -> None:
    steps = [5.0 - 0.1 * step for step in range(30)]
    runs = {Variant.SHMEM: [_run(*steps)], Variant.STOCK: [_run(*steps)]}
    picture = tmp_path / "demo.png"
    demo_report.save_picture(picture, TrainConfig(), runs, loss_differences(runs))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--heads", "3"], "3"),
        (["--sequence", "1000", "--context", "3"], "1000"),
        (["--context", "1"], "at least 2 ranks"),
        (["--steps", "2"], "steps"),
        (["--rounds", "0"], "0 is not in the range"),
    ],
)
def test_the_error_about_an_option_says_how_to_fix_it(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--output", str(tmp_path), *options])
    assert result.exit_code in (1, 2)
    assert words in result.stderr
    assert "Traceback" not in result.output
