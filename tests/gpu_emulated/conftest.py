"""The emulator, built once, and jobs on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent / "gpu_emulator", HERE.parent / "e2e"):
    sys.path.insert(0, str(_folder))

from emulator import BuildError, Emulator  # noqa: E402


@pytest.fixture(scope="session")
def emulator() -> Emulator:
    try:
        return Emulator.build()
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
