"""Reads the answers once, and prints the numbers of compared programs and collectives as the last line."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import Answer, programs, read_answers
from differences import DOCUMENT, LIST, Row, read_rows
from placements import RELEASES, placements_for

_SUMMARY = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--answers", type=Path, help="Directory with the output of compile_family.py.")


@pytest.fixture(scope="session")
def root(pytestconfig: pytest.Config) -> Path:
    directory: Path | None = pytestconfig.getoption("--answers", default=None)
    if directory is None:
        raise pytest.UsageError("tests/upstream needs --answers DIR; run `make test-upstream`")
    return directory


@pytest.fixture(scope="session")
def answers(root: Path, pytestconfig: pytest.Config) -> list[Answer]:
    found = list(read_answers(root))
    compiled = sum(len(programs(root / r / p.name)) for r in RELEASES for p in placements_for(r))
    differing = sum(answer.differs for answer in found)
    pytestconfig.stash[_SUMMARY] = f"{compiled} programs, {len(found)} collectives, {differing} differences"
    return found


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    return read_rows(LIST.read_text(), DOCUMENT.read_text())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if summary := config.stash.get(_SUMMARY, None):
        listed = "all listed" if exitstatus == 0 else "see the failures above"
        terminalreporter.write_line(f"test-upstream: {summary}, {listed}")
