"""The emulator, built once, and jobs on it."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent / "gpu_emulator", HERE.parent / "e2e"):
    sys.path.insert(0, str(_folder))

from emulator import BuildError, Emulator  # noqa: E402


@functools.cache
def _built() -> Emulator:
    return Emulator.build()


def pytest_collection_finish(session: pytest.Session) -> None:
    # Before the first test that needs it, because a first build may take longer than the time limit of a test.
    wanted = any("emulator" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        with contextlib.suppress(BuildError):  # the fixture tries again, and reports the error
            _built()


@pytest.fixture(scope="session")
def emulator() -> Emulator:
    try:
        return _built()
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
