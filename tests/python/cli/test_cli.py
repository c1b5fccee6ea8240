"""The command as a whole."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from xla_shmem.cli.main import main
from xla_shmem.options.table import TABLE

GROUPS = {
    "Run": ["launch", "train"],
    "Understand": ["inspect", "doctor", "postmortem", "options"],
    "Measure": ["bench", "tune", "compare", "demo"],
    "Estimate": ["predict"],
}
COMMANDS = [command for commands in GROUPS.values() for command in commands]


def test_help_groups_the_commands_and_imports_neither_jax_nor_the_compiled_module() -> None:
    program = (
        "import sys\n"
        "from xla_shmem.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'jax', 'jaxlib', 'numpy', 'long_context', 'xla_shmem._core'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, result.stderr
    sections = dict(re.findall(r"^(\w+):\n((?:  .*\n)+)", result.stdout, re.MULTILINE))
    assert {group: re.findall(r"^  (\w+)", lines, re.MULTILINE) for group, lines in sections.items()} == GROUPS | {
        "Options": []
    }


@pytest.mark.parametrize("command", ["train", "compare", "demo"])
def test_help_of_the_workloads_needs_nothing_that_they_are_made_of(command: str) -> None:
    program = (
        "import sys\n"
        "from xla_shmem.cli.main import main\n"
        f"main(['{command}', '--help'], standalone_mode=False)\n"
        "heavy = {'jax', 'jaxlib', 'flax', 'optax', 'orbax', 'grain', 'matplotlib', 'datasets'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--steps", "3", "-x"]], ids=str)
@pytest.mark.parametrize("command", ["train", "compare", "demo"])
def test_a_command_of_a_missing_package_says_what_to_install(
    command: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **selected: ())
    result = CliRunner().invoke(main, [command, *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"Error: {command} is a command of the package long-context, which is not installed; in a clone of xla-shmem "
        "run: pip install ./python/long_context\n"
    )


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"demo"}))
def test_help_of_each_command_has_examples(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert f"xla-shmem {command} " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_default_is_a_word_and_no_letter_of_an_option(command: str) -> None:
    """`[default: c]` was the short name of `--check`."""
    result = CliRunner().invoke(main, [command, "--help"], env={"COLUMNS": "110"})
    assert re.findall(r"\[default:\s+[a-z]\]", result.stdout) == []


def test_every_option_has_one_meaning_in_all_commands() -> None:
    meanings: dict[str, dict[tuple[str, ...], str]] = {}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                for spelling in (*option.opts, *option.secondary_opts):
                    meanings.setdefault(spelling, {}).setdefault(_meaning(option), name)
    assert {spelling: found for spelling, found in meanings.items() if len(found) > 1} == {}
    assert len(meanings) > 60


def _meaning(option: click.Option) -> tuple[str, ...]:
    """The first words of the help, whether a value (or a list of them) follows, and the full name."""
    stem = re.split(r"[,.;:]", option.help or "")[0]
    form = "flag" if option.is_flag or option.flag_value is True else "value"
    return stem, form, max(option.opts, key=len)


def test_options_lists_every_option_in_80_columns() -> None:
    result = CliRunner().invoke(main, ["options"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    entries = dict(entry.split("\n", 1) for entry in result.stdout.split("\n\n"))
    assert list(entries) == [f"{one.env}  [default: {one.default or 'unset'}]" for one in TABLE.values()]
    for option, entry in zip(TABLE.values(), entries.values(), strict=True):
        text = option.text.replace("`", "'")
        assert " ".join(entry.split()) == f"Values: {option.values}. {text}"


def test_unknown_command_exits_with_2() -> None:
    result = CliRunner().invoke(main, ["launhc"])
    assert result.exit_code == 2
    assert "No such command 'launhc'" in result.stderr
