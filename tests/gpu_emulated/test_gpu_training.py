"""A small Llama trains on emulated GPUs as on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator

STEPS = 10

# Two kinds of rounding differ, each by some 2^-24 of a value. Sums are added in another order: XLA:CPU and XLA:GPU tile
# matmuls and reductions differently, and each rank adds its part of the sequence. And exp, log and rsqrt are other code
# on each platform. Ten steps of the optimiser feed the differences back.
TOLERANCE = 2e-6


@pytest.mark.timeout(400)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ten_steps_have_the_losses_of_one_gpu_and_of_the_cpu(emulator: Emulator, tmp_path: Path, ranks: int) -> None:
    job = run_emulated(
        emulator,
        "worker_gpu_training.py",
        ranks=ranks,
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,  # so that the collectives of every step are counted
        timeout=350,
        JAX_DEFAULT_MATMUL_PRECISION="highest",
    )
    assert job.exit_code == 0, job.output[-6000:]
    for rank in range(ranks):
        result = job.result(rank)
        assert result["together"] == job.result(0)["together"], "the ranks disagree"
        assert len(result["together"]) == STEPS
        assert result["cpu"][-1] < result["cpu"][0], "nothing was learnt"
        np.testing.assert_allclose(result["alone"], result["cpu"], rtol=TOLERANCE)
        np.testing.assert_allclose(result["together"], result["alone"], rtol=TOLERANCE)
        assert result["calls"] > 0, "the step has no collective on NVSHMEM"
        assert result["ran"] == STEPS * result["calls"]
