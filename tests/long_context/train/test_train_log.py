"""The log of a training job, and the averages computed from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from long_context.models.llama_config import PRESETS, LlamaConfig, parameter_count
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.job_folder import check_folder, newest_checkpoint
from long_context.train.step_log import LogFollower, StepLog, StepRecord, forget_records, read_records
from long_context.train.step_times import measured_seconds, step_times
from long_context.train.summary import save_picture, save_summary, summary
from long_context.train.throughput import matmul_parameters, step_flops


def records(seconds: list[float], compiled: tuple[int, ...] = (0,)) -> list[StepRecord]:
    return [
        StepRecord(step, 5.0 - step / 100, value, 64, 64 / value, 1e-3 / value, step in compiled)
        for step, value in enumerate(seconds)
    ]


def test_an_incomplete_last_line_of_a_log_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    follower = LogFollower(log)
    assert follower.new_records() == []
    first, second = StepRecord(0, 5.5, 1.0, 64, compiled=True), StepRecord(1, 5.4, 0.5, 64, 128.0, 0.25)
    written = StepLog(log)
    written.append(first)
    with log.open("a") as file:
        file.write('{"step": 1, "lo')
    assert follower.new_records() == [first]
    assert follower.new_records() == []
    log.write_text(log.read_text().rpartition("{")[0])
    written.append(second)
    assert follower.new_records() == [second]
    assert read_records(log) == [first, second]


def test_the_error_names_a_file_that_is_not_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"stop": 1}\n')
    with pytest.raises(ValueError, match="is not a log of training steps"):
        read_records(log)


def test_records_after_the_checkpoint_are_removed(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    earlier = StepLog(log)
    for record in records([1.0] * 5):
        earlier.append(record)
    forget_records(log, 3)
    assert [record.step for record in read_records(log)] == [0, 1, 2]


def test_a_resumed_job_removes_the_records_that_it_writes_again(tmp_path: Path) -> None:
    first, second = (StepLog(tmp_path / "new" / "log.jsonl") for _ in range(2))
    for record in records([1.0] * 5):
        first.append(record)
    for record in records([2.0] * 5)[3:]:
        second.append(record)
    assert [record.seconds for record in read_records(tmp_path / "new" / "log.jsonl")] == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_steps_3_to_20_count_but_not_those_that_compiled() -> None:
    run = records([float(step) for step in range(1, 31)], compiled=(0, 10))
    assert measured_seconds(run) == [float(step + 1) for step in range(3, 21) if step != 10]
    assert step_times([run]).count == 17


def test_averages_are_means_of_rank_0s_log_as_in_nvidias_post_with_medians_beside_them(tmp_path: Path) -> None:
    # 5 steps of 1 s and 3 of 3 s: 1.75 s per step, 64 / 1.75 tokens/s, and 5/8 + 1/3 * 3/8 of the TFLOP/s of 1 s.
    run = records([9.0, 9.0, 9.0, *[1.0, 3.0] * 3, 1.0, 1.0])
    lines = summary(TrainConfig(steps=11), run)
    assert lines == [
        "Loss 5.0000 at step 0, 4.9000 at step 10.",
        "Steps 3 to 10 (8) on rank 0, mean (median): 1750.0 (1000.0) ms per step, 0.00075 (0.001) TFLOP/s per device; "
        "37 tokens/s.",
    ]
    save_summary(tmp_path / "summary.json", TrainConfig(steps=11), run)
    saved = json.loads((tmp_path / "summary.json").read_text())
    assert saved["steps"] == list(range(3, 11))
    assert saved["job"]["steps"] == 11
    assert (saved["step_s"], saved["median_step_s"]) == (1.75, 1.0)
    assert (saved["tflops_per_device"], saved["median_tflops_per_device"]) == pytest.approx((0.00075, 0.001))
    save_summary(tmp_path / "summary.json", TrainConfig(steps=2), run[:2])
    assert json.loads((tmp_path / "summary.json").read_text())["step_s"] is None


def test_the_summary_of_a_short_job_says_that_it_has_no_averages(tmp_path: Path) -> None:
    short = records([1.0, 1.0])
    assert "No averages: they need steps 3 to 20, and the job had 2 steps." in summary(TrainConfig(steps=2), short)
    save_picture(tmp_path / "short.png", TrainConfig(steps=2), short)
    assert (tmp_path / "short.png").read_bytes().startswith(b"\x89PNG")


def test_matmul_parameters_are_all_but_norms_and_the_embedding_table() -> None:
    model = PRESETS["8b"]
    norms = (2 * model.layers + 1) * model.width
    assert matmul_parameters(model) == parameter_count(model) - norms - model.vocab * model.width
    tied = PRESETS["1b"]
    norms = (2 * tied.layers + 1) * tied.width
    assert matmul_parameters(tied) == parameter_count(tied) - norms


def test_experts_that_do_not_compute_a_token_do_not_count() -> None:
    model = PRESETS["mixtral-8x7b"]
    norms = (2 * model.layers + 1) * model.width
    idle = model.layers * 6 * 3 * model.width * model.hidden  # 2 of 8 experts compute a token
    assert matmul_parameters(model) == parameter_count(model) - norms - model.vocab * model.width - idle


def test_flops_equal_a_count_by_hand() -> None:
    model = LlamaConfig(vocab=10, width=4, layers=1, heads=2, kv_heads=1, hidden=3)
    forward = 0
    for name, rows, columns in (("q", 4, 4), ("k", 4, 2), ("v", 4, 2), ("o", 4, 4), ("head", 4, 10)):
        assert name
        forward += 2 * rows * columns
    forward += 3 * 2 * 4 * 3  # gate, up, down
    tokens = 5
    scores_and_values = 2 * (2 * model.heads * model.head_dim) * tokens * tokens / 2  # causal: half of the pairs
    assert step_flops(model, batch=1, sequence=tokens) == 3 * (forward * tokens + scores_and_values)


def test_a_folder_with_checkpoints_is_refused_without_resume(tmp_path: Path) -> None:
    new = TrainConfig(output=str(tmp_path), checkpoint_every=5)
    check_folder(new)
    for name in ("5", "10", "15.orbax-checkpoint-tmp-3"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert newest_checkpoint(new) == 10
    with pytest.raises(ConfigError, match="holds a checkpoint after 10 steps; --resume continues from there"):
        check_folder(new)
    check_folder(TrainConfig(output=str(tmp_path), checkpoint_every=5, resume=True))
