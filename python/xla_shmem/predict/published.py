"""What was published about Table 2, to hold predictions against: `published.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).parent / "published.toml"


@dataclasses.dataclass(frozen=True)
class Band:
    """The published gains of all rows of one length.

    Attributes:
      sequence: tokens.
      low, high: smallest and largest gain; 0.3 for 30 %.
    """

    sequence: int
    low: float
    high: float

    def error(self, gains: Iterable[float]) -> float:
        """How far the predicted gains' ends are from the published ones: mean of the two errors in the ratio of step
        times, 0.1 for 10 %."""
        found = list(gains)
        ends = ((self.low, min(found)), (self.high, max(found)))
        return sum(abs((1 + predicted) / (1 + published) - 1) for published, predicted in ends) / 2


def read_bands() -> list[Band]:
    """All that is known, by length."""
    return [Band(**entry) for entry in tomllib.loads(FILE.read_text())["bands"]]
