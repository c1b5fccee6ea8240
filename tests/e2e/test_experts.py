"""A mixture-of-experts model with expert parallelism trains on CPU, by ragged all-to-alls that stock JAX refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from job_runs import run_job


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("ranks", "devices"), [(4, 1), (1, 4), pytest.param(2, 2, marks=pytest.mark.slow)])
def test_experts_on_four_devices_train_as_a_dense_model_does(tmp_path: Path, ranks: int, devices: int) -> None:
    # With default options: XLA:CPU runs the all-gathers and reductions that the rules leave to it.
    job = run_job("worker_experts.py", ranks=ranks, devices=devices, results=tmp_path, timeout=200)
    assert job.exit_code == 0, job.output
    assert len(job.results) == ranks, job.output
    for rank in job.results:
        found = job.result(rank)
        losses, dense = np.array(found["losses"]), np.array(found["dense"])
        assert np.allclose(losses, dense, rtol=2e-6, atol=0), found
        assert float(str(found["error"])) < 2e-5, found
        assert losses[-1] < 0.9 * losses[0], found
        # Two layers: there and back, and both backward.
        assert int(str(found["ragged"])) >= 7, found
        assert found["fewest"] == 0, found
        assert int(str(found["most"])) >= 12, found  # twice the mean
