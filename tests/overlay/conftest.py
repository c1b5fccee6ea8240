"""The patched XLA, once, and jobs on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for _folder in (HERE, HERE.parent / "gpu_emulator", HERE.parent / "gpu_emulated", HERE.parent / "e2e"):
    sys.path.insert(0, str(_folder))

from emulator import Emulator  # noqa: E402
from patched_xla import PatchedXla  # noqa: E402


@pytest.fixture(scope="session")
def stock() -> Emulator:
    """JAX's own plugin."""
    return Emulator.build()


@pytest.fixture(scope="session")
def emulator(stock: Emulator, tmp_path_factory: pytest.TempPathFactory) -> PatchedXla:
    return PatchedXla.installed(stock, tmp_path_factory.mktemp("patched"))
