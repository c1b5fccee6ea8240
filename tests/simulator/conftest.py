"""The simulator of the sources as they are."""

from __future__ import annotations

import pytest
from planted_mistakes import ROOT
from simulator_build import Simulator


@pytest.fixture(scope="session")
def simulator() -> Simulator:
    return Simulator(ROOT, ROOT / "build" / "simulator")
