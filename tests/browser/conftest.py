"""A browser for the tests of this folder. Each test checks that the page raised no error and used no network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Chromium


@pytest.fixture(scope="session")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(_browser: Chromium) -> Iterator[Chromium]:
    _browser.problems.clear()
    _browser.requests.clear()
    _browser.prefer("light")
    _browser.resize(0)
    yield _browser
    assert _browser.problems == []
    assert all(address.startswith("file:") for address in _browser.requests)
