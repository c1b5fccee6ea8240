"""What several tests of the commands need."""

from __future__ import annotations

import pytest

from xla_shmem.options.table import TABLE


@pytest.fixture
def no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every XLA_SHMEM_ option out of the environment."""
    for option in TABLE:
        monkeypatch.delenv(option.env, raising=False)
