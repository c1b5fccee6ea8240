"""The emulator, built once, and jobs on it."""

from __future__ import annotations

import contextlib
import functools
import itertools
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Divides the tests among the workers of `--dist loadgroup` by jobs, those with the longest time limit first."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_time_limit, reverse=True)


def _group(item: pytest.Item) -> str:
    """Tests that share a job, or another fixture of their module, have one group."""
    fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    shared = any(found.scope == "module" for found in itertools.chain.from_iterable(fixtures.values()))
    if not shared:
        return item.nodeid
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return f"{item.path.name} {parameters.get('key') or parameters.get('job')}"


def _time_limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0


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
