"""Runs `xla-shmem inspect` for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from xla_shmem.cli.main import main


def inspect(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    """Runs the command in this process."""
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)], input=stdin, prog_name="xla-shmem")


def inspected(*arguments: str | Path) -> dict[str, dict[str, Any]]:
    """Returns what the command prints with --json, by the names of the collectives."""
    result = inspect(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return {record["name"]: record for record in json.loads(result.stdout)}
