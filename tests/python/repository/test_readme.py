"""README and docs agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from xla_shmem.cli.main import main
from xla_shmem.options.table import TABLE, markdown_table
from xla_shmem.xla_flags import MARKER

ROOT = Path(__file__).parents[3]
#: Variables of scripts, not of the package.
BUILD_VARIABLES = {"XLA_SHMEM_XLA", "XLA_SHMEM_TENSORFLOW"}
README = (ROOT / "README.md").read_text()
OPTIONS = (ROOT / "docs" / "options.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_option_table_is_the_generated_one() -> None:
    between = re.search(r"<!-- options:.*?-->\n(.*?)<!-- /options -->", OPTIONS, re.DOTALL)
    assert between is not None
    assert between.group(1) == markdown_table()


def test_the_readme_fits_on_two_screens() -> None:
    assert len(README.splitlines()) < 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_variable_it_names_exists(page: Path) -> None:
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL)
    commands = {command for piece in code for command in re.findall(r"xla-shmem (\w+)", piece)}
    variables = {variable for piece in code for variable in re.findall(r"\bXLA_SHMEM_\w+", piece)}
    assert commands <= set(main.list_commands(click.Context(main)))
    assert variables <= {option.env for option in TABLE} | {MARKER} | BUILD_VARIABLES


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", README)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_it_links_exists(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).is_file(), link
