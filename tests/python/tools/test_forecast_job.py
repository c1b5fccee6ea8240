"""Forecasts of jobs that nobody has run: `tools/forecast_job.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from forecast_job import main
from gpu_compile.described_gpus import PRESET_TARGETS, target_names
from xla_shmem.predict.cluster import preset_names


def _forecast(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def _sentence(*arguments: str | Path) -> str:
    result = _forecast(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def test_every_preset_is_compiled_for_gpus_that_are_described() -> None:
    assert sorted(PRESET_TARGETS) == preset_names()
    assert set(PRESET_TARGETS.values()) <= set(target_names())


def test_a_sketched_job_is_predicted_on_both_backends() -> None:
    result = _forecast("--json", "--context", "8")
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert found["program"] == "8b, 65,536 tokens, data 1 x fsdp 1 x context 8 x tensor 1, sketched"
    assert found["devices"] == 8
    slow, fast = found["default"], found["nvshmem"]
    assert 0 < fast["slowed_s"] < slow["slowed_s"], "puts keep no SM; NCCL's gathers do, on both backends"


def test_a_file_describes_the_job_and_sizes_take_precedence(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text("sequence = 32768\ncontext = 8\nfp8 = true\n")
    (found,) = json.loads(_forecast("--config", file, "--context", "16", "--json").stdout)
    assert found["devices"] == 16
    assert "32,768 tokens" in found["program"]
    (in_bf16,) = json.loads(_forecast("--sequence", "32768", "--context", "16", "--json").stdout)
    assert found["nvshmem"]["compute_s"] < 0.7 * in_bf16["nvshmem"]["compute_s"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('remat = "dots"', "remat is dots, and only full can be sketched"),
        ("context = 1", "the job is for one device"),
        ("contexts = 8", "contexts"),
    ],
)
def test_a_job_that_cannot_be_forecast_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "job.toml").write_text(text)
    assert words in _sentence("--config", tmp_path / "job.toml")
