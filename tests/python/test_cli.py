"""The command as a whole."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from xla_shmem.cli.main import main
from xla_shmem.options.table import markdown_table


def test_help_lists_the_commands_and_imports_neither_jax_nor_the_compiled_module() -> None:
    program = (
        "import sys\n"
        "from xla_shmem.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'jax', 'jaxlib', 'numpy', 'xla_shmem._core'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, result.stderr
    for command in ("launch", "inspect", "assign", "bench", "train", "compare", "doctor", "options"):
        assert f"  {command} " in result.stdout


@pytest.mark.parametrize("command", ["launch", "inspect", "assign", "bench", "train", "compare", "doctor"])
def test_help_of_each_command_has_examples(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert f"xla-shmem {command} " in result.stdout


def test_options_prints_the_table_of_the_documentation() -> None:
    result = CliRunner().invoke(main, ["options"])
    assert (result.exit_code, result.stdout) == (0, markdown_table())


def test_unknown_command_exits_with_2() -> None:
    result = CliRunner().invoke(main, ["launhc"])
    assert result.exit_code == 2
    assert "No such command 'launhc'" in result.stderr
