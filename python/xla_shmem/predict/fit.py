"""Finds the model's fitted constant from what was published, and what it would be if a part of that were not known.

    python -m xla_shmem.predict.fit

prints what belongs into `constants.toml`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import Constants, read_constants
from xla_shmem.predict.forecast import forecast
from xla_shmem.predict.program import Program
from xla_shmem.predict.published import Band, read_bands
from xla_shmem.predict.rows import CLUSTER, Row, read_rows
from xla_shmem.predict.walk import Machine

#: GB/s of a channel that are tried: five to the doubling, from what no channel falls below to a tenth of NVLink.
TRIED = tuple(round(10 * 2 ** (step / 5), 1) for step in range(17))


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A band that the constant was fitted without.

    Attributes:
      band: the one left out.
      channel_gb_per_s: fitted to the others.
      low, high: smallest and largest gain predicted for the band's rows.
      error: as `Band.error`.
    """

    band: Band
    channel_gb_per_s: float
    low: float
    high: float
    error: float


def gains(rows: Mapping[Row, Program], constants: Constants) -> dict[Row, float]:
    """Predicted gain of each row on the hardware of the measurements."""
    machine = Machine(read_cluster(CLUSTER), constants)
    return {row: forecast(str(row), program, machine).gain for row, program in rows.items()}


class Fit:
    """Gains at every value that is tried, computed once."""

    def __init__(self, rows: Mapping[Row, Program]) -> None:
        """Args: rows: programs of the rows of docs/table2.md."""
        constants = read_constants()
        self._gains = {value: gains(rows, dataclasses.replace(constants, channel_gb_per_s=value)) for value in TRIED}

    def best(self, bands: Sequence[Band]) -> float:
        """The value whose predictions are nearest to the bands: the sum of their squared errors is least."""
        return min(TRIED, key=lambda value: math.fsum(self.error(band, value) ** 2 for band in bands))

    def error(self, band: Band, value: float) -> float:
        """Of the predictions for one band at a value."""
        return band.error(self._of(band, value))

    def leave_one_out(self, bands: Sequence[Band]) -> list[LeftOut]:
        """Each band, predicted with what the others alone would give."""
        results = []
        for band in bands:
            value = self.best([other for other in bands if other != band])
            predicted = self._of(band, value)
            results.append(LeftOut(band, value, min(predicted), max(predicted), band.error(predicted)))
        return results

    def _of(self, band: Band, value: float) -> list[float]:
        return [gain for row, gain in self._gains[value].items() if row.sequence == band.sequence]


if __name__ == "__main__":
    fit, published = Fit(read_rows()), read_bands()
    print(f"channel_gb_per_s = {fit.best(published)}")
    for each in fit.leave_one_out(published):
        print(f"without {each.band.sequence >> 10}K: {each.channel_gb_per_s}, error {each.error:.3f}")
