"""Fits the one free constant of `xla-shmem predict` to the published gains, and repeats the fit without each of them.

    python tools/fit_predict.py

prints the value for `python/xla_shmem/predict/constants.toml`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from compiled_rows import CLUSTER, read_rows
from published_gains import Band, read_bands
from table2 import Row
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import Constants, read_constants
from xla_shmem.predict.forecast import forecast
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine

#: Values of `channel_gb_per_s` to try: five per doubling, from a lower bound to a tenth of NVLink.
TRIED = tuple(round(10 * 2 ** (step / 5), 1) for step in range(17))


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """The prediction for one band with the constant fitted to the other bands.

    Attributes:
      band: the band left out of the fit.
      channel_gb_per_s: value fitted to the others.
      low, high: smallest and largest gain predicted for the band's rows.
      error: `Band.error` of these predictions.
    """

    band: Band
    channel_gb_per_s: float
    low: float
    high: float
    error: float


def gains(rows: Mapping[Row, Program], constants: Constants) -> dict[Row, float]:
    """Predicted gain of each row on the cluster of NVIDIA's measurements."""
    machine = Machine(read_cluster(CLUSTER), constants)
    return {row: forecast(str(row), program, machine).gain for row, program in rows.items()}


class Fit:
    """The predicted gains at every value in `TRIED`, computed once."""

    def __init__(self, rows: Mapping[Row, Program]) -> None:
        """Args: rows: programs of the rows of docs/table2.md."""
        constants = read_constants()
        self._gains = {value: gains(rows, dataclasses.replace(constants, channel_gb_per_s=value)) for value in TRIED}

    def best(self, bands: Sequence[Band]) -> float:
        """The value with the smallest sum of squared errors over the bands."""
        return min(TRIED, key=lambda value: math.fsum(self.error(band, value) ** 2 for band in bands))

    def error(self, band: Band, value: float) -> float:
        """Error of the predictions for one band at a value."""
        return band.error(self._of(band, value))

    def leave_one_out(self, bands: Sequence[Band]) -> list[LeftOut]:
        """Each band, predicted with the value that fits the other bands best."""
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
