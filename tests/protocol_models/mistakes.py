"""What is planted in a model, and how Spin names what it finds."""

from __future__ import annotations

from dataclasses import dataclass

from spin_checks import Bounds

ASSERTION = "assertion violated"
STUCK = "invalid end state"
ENDLESS = "non-progress cycle"


@dataclass(frozen=True)
class Mistake:
    """A mistake in a model.

    Attributes:
      bounds: sizes at which it shows.
      original: stands in the model once.
      replacement: what is written instead.
      found_as: what Spin calls it.
    """

    bounds: Bounds
    original: str
    replacement: str
    found_as: str = ASSERTION
