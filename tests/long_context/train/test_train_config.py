"""Training jobs: config files, the command line, and the errors about jobs that cannot run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from long_context.cli.config_options import TRAINED, config_options, from_options
from long_context.models.llama_config import PRESETS
from long_context.train.config import ConfigError, TrainConfig
from long_context.train.config_file import read_config_file


def parse(*arguments: str) -> TrainConfig:
    """The job of a command line."""

    @click.command()
    @config_options()
    def command(config: Path | None, **options: Any) -> TrainConfig:
        return from_options(config, options)

    job = command.main(list(arguments), standalone_mode=False)
    assert isinstance(job, TrainConfig)
    return job


def test_the_arguments_of_a_job_are_read_back_as_the_job() -> None:
    job = TrainConfig(
        preset="tiny",
        layers=3,
        qk_norm=True,
        tensor=2,
        sequence=64,
        tensor_matmul="sync",
        fp8=True,
        learning_rate=1e-4,
        corpus="a b",
        seed=3,
    )
    assert parse(*job.arguments()) == job
    assert parse() == TrainConfig()


def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('preset = "tiny"\nsteps = 7\nlearning-rate = 1\n')
    job = parse("--config", str(file), "--steps", "9", "--seq", "2048")
    assert (job.preset, job.steps, job.learning_rate, job.sequence) == ("tiny", 9, 1.0, 2048)
    assert job.batch == TrainConfig().batch


def test_a_given_field_replaces_that_of_the_preset() -> None:
    model = TrainConfig(preset="tiny", layers=5, qk_norm=True).model()
    assert model == dataclasses.replace(PRESETS["tiny"], layers=5, qk_norm=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": 3}, "width 128 does not divide into 3 heads; choose a width that is a multiple of 3"),
        ({"kv_heads": 3}, "4 heads do not divide into 3 key/value heads"),
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"sequence": 1020}, "sequence 1020 does not divide over context 4.*multiple of 8"),
        ({"data": 2, "fsdp": 3}, "batch of 1 sequences does not divide over data 2 x fsdp 3.*multiple of 6"),
        ({"tensor": 4}, "kv-heads 2 does not divide over tensor 4"),
        ({"context": 0}, "context is 0; it must be at least 1"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1; it must not be negative"),
        ({"learning_rate": 0.0}, "learning-rate is 0.0; it must be greater than 0"),
        ({"preset": "tyni"}, "preset is 'tyni', which is unknown; did you mean tiny?"),
        ({"preset": "gpt"}, "preset is 'gpt', which is unknown; choose one of tiny, tiny-3.1, tiny-moe, demo, 1b"),
        ({"attention": "rings"}, "attention is 'rings', which is unknown; did you mean ring?"),
        ({"token_dtype": "unit16"}, "token-dtype is 'unit16', which is unknown; did you mean uint16?"),
    ],
)
def test_the_error_about_a_job_says_how_to_fix_it(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contex = 4", "a key is 'contex', which is unknown; did you mean context?"),
        ('steps = "30"', "steps is '30'; it must be an integer, without the quotes: steps = 30."),
        ("fp8 = 1", "fp8 is 1; it must be true or false."),
        ("steps = true", "steps is True; it must be an integer."),
        ("steps 30", "is not TOML: Expected '='"),
    ],
)
def test_the_error_about_a_config_file_names_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_config_file(file)
    assert message in str(error.value)
    assert "job.toml" in str(error.value)


def test_a_wrong_option_ends_the_command_with_its_error() -> None:
    @click.command()
    @config_options(only=TRAINED)
    def command(config: Path | None, **options: Any) -> None:
        from_options(config, options)

    wrong = CliRunner().invoke(command, ["--heads=3"])
    assert (wrong.exit_code, "does not divide into 3 heads" in wrong.stderr) == (2, True)
    left_out = CliRunner().invoke(command, ["--resume"])
    assert (left_out.exit_code, "No such option" in left_out.stderr) == (2, True)


def test_a_key_of_a_file_that_is_none_of_the_options_is_refused(tmp_path: Path) -> None:
    @click.command()
    @config_options(only=TRAINED)
    def command(config: Path | None, **options: Any) -> None:
        from_options(config, options)

    file = tmp_path / "job.toml"
    file.write_text('preset = "tiny"\nresume = true\n')
    refused = CliRunner().invoke(command, ["--config", str(file)])
    assert refused.exit_code == 2
    assert f"config {file}: resume is none of this command's options; remove it." in refused.stderr.replace("\n", " ")


def test_every_field_is_trained_or_about_files() -> None:
    assert {field.name for field in dataclasses.fields(TrainConfig)} - set(TRAINED) == {
        *("output", "checkpoint_every", "checkpoints_kept", "resume")
    }


def test_a_profile_needs_steps_behind_those_that_compile() -> None:
    assert TrainConfig(profile_steps=3, steps=5).profile_steps == 3
    with pytest.raises(ConfigError, match=r"profile-steps is 4 of 5 steps, .* set steps to at least 6\."):
        TrainConfig(profile_steps=4, steps=5)
    with pytest.raises(ConfigError, match="profile-steps is -1; it must not be negative"):
        TrainConfig(profile_steps=-1)
