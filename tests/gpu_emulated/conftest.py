"""The emulator, built once, and jobs on it."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent / "gpu_emulator", HERE.parent / "e2e"):
    sys.path.insert(0, str(_folder))

from emulator import BuildError, Emulator  # noqa: E402
from hardware import Hardware  # noqa: E402

_HARDWARE = "--hardware"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_HARDWARE, action="store_true", help="run the jobs on this machine's GPUs, which share them")


@functools.cache
def _built(on_hardware: bool) -> Emulator:
    return Hardware.found() if on_hardware else Emulator.build()


class JobScheduling(LoadScopeScheduling):
    """Divides the tests among the workers of pytest-xdist by jobs: those that share one run in one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        parameters = test.partition("[")[2]
        name = Path(file).name
        if name == "test_gpu_results.py":  # [setting-case]
            return f"{name} {parameters.rpartition('-')[0]}"
        if name == "test_transfers.py":  # [case-job], and [job]
            return f"{name} {parameters.partition('-')[2] if test.startswith('test_result') else parameters}"
        return nodeid if name in ("test_gpu_failures.py", "test_gpu_multimem.py") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> JobScheduling:
    return JobScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with the longest time limit come first, so that no worker waits for a long job at the end."""
    items.sort(key=_time_limit, reverse=True)


def _time_limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0


def pytest_collection_finish(session: pytest.Session) -> None:
    # Before the first test that needs it, because a first build may take longer than the time limit of a test.
    wanted = any("emulator" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        with contextlib.suppress(BuildError):  # the fixture tries again, and reports the error
            _built(session.config.getoption(_HARDWARE, default=False))


@pytest.fixture(scope="session")
def emulator(pytestconfig: pytest.Config) -> Emulator:
    try:
        return _built(pytestconfig.getoption(_HARDWARE, default=False))
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
