"""README and docs agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from xla_shmem.cli.main import main
from xla_shmem.options.table import TABLE
from xla_shmem.xla_flags import MARKER

ROOT = Path(__file__).parents[3]
#: Variables of scripts, not of the package.
BUILD_VARIABLES = {"XLA_SHMEM_XLA", "XLA_SHMEM_TENSORFLOW"}
README = (ROOT / "README.md").read_text()
OPTIONS = (ROOT / "docs" / "options.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_option_has_a_heading_and_the_page_is_short() -> None:
    assert re.findall(r"^### `(\w+)`$", OPTIONS, re.MULTILINE) == [option.env for option in TABLE.values()]
    assert len(OPTIONS.split()) <= 930


def test_the_readme_fits_on_two_screens() -> None:
    assert len(README.splitlines()) < 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_variable_it_names_exists(page: Path) -> None:
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
    commands = {command for piece in code for command in re.findall(r"xla-shmem (\w+)", piece)}
    variables = {variable for piece in code for variable in re.findall(r"\bXLA_SHMEM_\w+", piece)}
    assert commands <= set(main.list_commands(click.Context(main)))
    assert variables <= {option.env for option in TABLE.values()} | {MARKER} | BUILD_VARIABLES


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", README)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_it_links_exists(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).is_file(), link
