"""Fits the free constants of `xla-shmem predict` to the sixteen numbers of Table 2 in NVIDIA's post.

    python tools/fit_predict.py

prints the values for `python/xla_shmem/predict/constants.toml`, and those that a fit without each row finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from published import TABLE2, Row
from sketch import Exchanges, sketch
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import Constants, read_constants
from xla_shmem.predict.forecast import BACKENDS, Forecast, forecast
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine

#: Preset of the cluster on which NVIDIA measured.
CLUSTER = "gb200-nvl72"

#: The constants that are fitted, and where a fit starts.
FITTED = {"attention_efficiency": 0.2, "channel_gb_per_s": 40.0}

#: Transfers of MaxText's program with Transformer Engine's ring, as far as they are known (docs/predict.md). That each
#: of a layer's seven matmuls exchanges slices once forward and twice backward (collective matmuls) is an assumption.
MAXTEXT = Exchanges(forward=(4, 3), again=None, backward=(8, 6), gradients_beside_attention=True)


def programs(exchanges: Exchanges = MAXTEXT) -> dict[Row, Program]:
    """The program of each row."""
    return {row: sketch(row.job(), read_cluster(CLUSTER), exchanges) for row in TABLE2}


def forecasts(of: Mapping[Row, Program], constants: Constants) -> dict[Row, Forecast]:
    """The prediction for each row on the cluster of NVIDIA's measurements."""
    machine = Machine(read_cluster(CLUSTER), constants)
    return {row: forecast(str(row), program, machine, row.flops * row.devices) for row, program in of.items()}


def errors(found: Mapping[Row, Forecast]) -> NDArray[np.float64]:
    """Logarithm of predicted over published TFLOP/s: a line for each row, a column for each backend."""
    return np.log(
        [[each.tflops(backend) / TABLE2[row].tflops[backend] for backend in BACKENDS] for row, each in found.items()]
    )


def with_fitted(values: Iterable[float]) -> Constants:
    """The constants with other values of the fitted ones, in the order of `FITTED`."""
    fitted: dict[str, Any] = dict(zip(FITTED, map(float, values), strict=True))
    return dataclasses.replace(read_constants(), **fitted)


def fit(of: Mapping[Row, Program]) -> Constants:
    """The constants with the least squares of `errors` over these rows, to three digits."""
    found = least_squares(
        lambda logs: errors(forecasts(of, with_fitted(np.exp(logs)))).ravel(),
        np.log(list(FITTED.values())),
        diff_step=0.01,
        xtol=1e-4,
    )
    return with_fitted(float(f"{value:.3g}") for value in np.exp(found.x))


def leave_one_out(of: Mapping[Row, Program]) -> dict[Row, Forecast]:
    """The prediction for each row with the constants fitted to the other rows."""
    return {
        row: forecasts({row: program}, fit({other: each for other, each in of.items() if other != row}))[row]
        for row, program in of.items()
    }


def rms(values: NDArray[np.float64]) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))


if __name__ == "__main__":
    rows = programs()
    constants = fit(rows)
    for name in FITTED:
        print(f"{name} = {getattr(constants, name)}")
    print(f"rms error {rms(errors(forecasts(rows, constants))):.4f}")
    for row, each in leave_one_out(rows).items():
        print(f"without {row}: errors {np.exp(errors({row: each})[0]) - 1}, gain {each.gain:.3f}")
