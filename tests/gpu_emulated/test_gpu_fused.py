"""All-reduces that XLA puts into fusions on GPUs with NVLinks, by JAX on emulated GPUs: the pass takes them out."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest
from emulated_jobs import run_emulated
from emulator import GRAPH_FLAGS, NO_GRAPH_FLAGS, Emulator

#: The emulator has no programmatic launches, by which jax 0.12 starts kernels early on such GPUs.
_WITHOUT_PDL = ("--xla_gpu_enable_pdl=false",) if jax.__version_info__ >= (0, 12) else ()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("flags", [NO_GRAPH_FLAGS, pytest.param(GRAPH_FLAGS, marks=pytest.mark.slow)])
def test_sums_out_of_fusions_are_right(emulator: Emulator, tmp_path: Path, flags: tuple[str, ...]) -> None:
    job = run_emulated(
        emulator,
        "worker_fused.py",
        ranks=2,
        results=tmp_path,
        flags=(*flags, *_WITHOUT_PDL),
        GPU_EMULATOR_COMPUTE_CAPABILITY="90",
    )
    assert job.exit_code == 0, job.output[-6000:]
