"""Marks further forms of a behaviour, which `make test` leaves to `make check` (forms.toml)."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
FORMS: dict[str, list[str]] = tomllib.loads((HERE / "forms.toml").read_text())


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Marks each item that a pattern of its file finds.

    Raises:
      pytest.UsageError: a pattern finds none in a file that was collected as a whole.
    """
    found: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.is_relative_to(HERE):
            found[str(item.path.relative_to(HERE))].append(item)
    whole = not any("::" in str(argument) for argument in session.config.args)
    for file, patterns in FORMS.items():
        for pattern in patterns:
            matching = [item for item in found[file] if re.match(pattern, item.name)]
            if found[file] and whole and not matching:
                raise pytest.UsageError(f"tests/forms.toml: {pattern!r} finds no test in {file}")
            for item in matching:
                item.add_marker("form")
