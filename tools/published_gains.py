"""The published gains of Table 2, for comparison with predictions: `published_gains.toml`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).parent / "published_gains.toml"


@dataclasses.dataclass(frozen=True)
class Band:
    """The published gains of all rows of one length.

    Attributes:
      sequence: tokens.
      low, high: smallest and largest gain; 0.3 means 30 %.
    """

    sequence: int
    low: float
    high: float

    def error(self, gains: Iterable[float]) -> float:
        """Mean relative error of the ratio of step times at both ends of the band; 0.1 means 10 %."""
        found = list(gains)
        ends = ((self.low, min(found)), (self.high, max(found)))
        return sum(abs((1 + predicted) / (1 + published) - 1) for published, predicted in ends) / 2


def read_bands() -> list[Band]:
    """All published bands, by length."""
    return [Band(**entry) for entry in tomllib.loads(FILE.read_text())["bands"]]
