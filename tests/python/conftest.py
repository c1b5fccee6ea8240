"""A fixture for tests of the commands."""

from __future__ import annotations

import pytest

from xla_shmem.options.table import TABLE


@pytest.fixture
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes every XLA_SHMEM_ option from the environment."""
    for option in TABLE.values():
        monkeypatch.delenv(option.env, raising=False)
