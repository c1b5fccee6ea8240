"""The README says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from xla_shmem.cli import main
from xla_shmem.options import markdown_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_option_table_is_the_generated_one() -> None:
    between = re.search(r"<!-- options:.*?-->\n(.*?)<!-- /options -->", README, re.DOTALL)
    assert between is not None
    assert between.group(1) == markdown_table()


def test_every_command_it_names_exists() -> None:
    listed = CliRunner().invoke(main, ["--help"]).output
    code = re.findall(r"```.*?```|`[^`\n]+`", README, re.DOTALL)
    named = {command for piece in code for command in re.findall(r"xla-shmem (\w+)", piece)}
    assert named
    assert all(re.search(rf"^  {command}\b", listed, re.MULTILINE) for command in named)


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([\w-]+)", README)) <= targets


def test_every_page_it_links_exists() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).is_file(), link
