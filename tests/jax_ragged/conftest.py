"""Finds JAX's own tests, which neither its wheels nor its source distributions hold."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))


@pytest.fixture(scope="session")
def ragged_tests() -> Path:
    """JAX's file ragged_collective_test.py."""
    file = Path(os.environ.get("JAX_TESTS", "")) / "ragged_collective_test.py"
    if not file.is_file():
        pytest.fail(f"{file} is no file: set JAX_TESTS to the folder tests/ of JAX's repository at the release's tag")
    return file.resolve()
