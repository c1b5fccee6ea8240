"""A small Llama trains on emulated GPUs as on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emulated_jobs import run_emulated
from emulator import NO_GRAPH_FLAGS, Emulator

from long_context.compare.side_by_side import dump_folder
from xla_shmem.backends import PLUGIN, STOCK, collectives

STEPS = 10

JOB = ("--preset=tiny", "--layers=1", "--width=16", "--heads=2", "--kv-heads=2", "--hidden=16", "--sequence=32")
FLAG = "--xla_gpu_experimental_enable_nvshmem=true"
COMMAND = "from xla_shmem.cli.main import main; main(prog_name='xla-shmem')"

# Two kinds of rounding differ, each by some 2^-24 of a value. Sums are added in another order: XLA:CPU and XLA:GPU tile
# matmuls and reductions differently, and each rank adds its part of the sequence. And exp, log and rsqrt are other code
# on each platform. Ten steps of the optimiser feed the differences back.
TOLERANCE = 2e-6


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("ranks", "devices"),
    [
        (2, 1),
        (1, 2),
        pytest.param(4, 1, marks=pytest.mark.slow),
        pytest.param(1, 4, marks=pytest.mark.slow),
        pytest.param(2, 2, marks=pytest.mark.slow),
    ],
)
def test_ten_steps_have_the_losses_of_one_gpu_and_of_the_cpu(
    emulator: Emulator, tmp_path: Path, ranks: int, devices: int
) -> None:
    job = run_emulated(
        emulator,
        "worker_gpu_training.py",
        ranks=ranks,
        devices=devices,
        results=tmp_path,
        flags=NO_GRAPH_FLAGS,  # so that the collectives of every step are counted
        timeout=350,
        JAX_DEFAULT_MATMUL_PRECISION="highest",
    )
    assert job.exit_code == 0, job.output[-6000:]
    first = job.result(0)
    assert first["cpu"][-1] < first["cpu"][0], "nothing was learnt"
    np.testing.assert_allclose(first["alone"], first["cpu"], rtol=TOLERANCE)
    np.testing.assert_allclose(first["together"], first["alone"], rtol=TOLERANCE)
    for rank in range(ranks):
        result = job.result(rank)
        assert result["together"] == first["together"], "the ranks disagree"
        assert len(result["together"]) == STEPS
        assert result["calls"] > 0, "the step has no collective on NVSHMEM"
        assert result["ran"] == STEPS * result["calls"] * devices


def _run(emulator: Emulator, *arguments: str, flags: tuple[str, ...] = ()) -> str:
    environ = emulator.environment(2, flags)
    done = subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_train_command_runs_on_gpus(emulator: Emulator, tmp_path: Path) -> None:
    job = ("train", *JOB, "--context=2", "--steps=5", f"--output={tmp_path}")
    text = " ".join(_run(emulator, "-c", COMMAND, *job, flags=(FLAG,)).split())
    assert "Steps 3 to 4 (2) on rank 0, mean (median):" in text
    assert json.loads((tmp_path / "summary.json").read_text())["steps"] == [3, 4]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compare_runs_shmem_and_nccl_in_turns(emulator: Emulator, tmp_path: Path) -> None:
    job = ("compare", *JOB, "--context=2", "--steps=5", "--platform=gpu", f"--output={tmp_path}")
    _run(emulator, "-c", COMMAND, *job)  # it compares the losses of both
    (row,) = json.loads((tmp_path / "compare.json").read_text())["rows"]
    assert set(row["runs"]) == {"SHMEM", "stock"}
    assert [len(log) for name in ("SHMEM", "stock") for log in row["runs"][name]] == [5, 5]
    for backend, where in ((PLUGIN, {"NVSHMEM"}), (STOCK, {"DEFAULT"})):
        (report,) = collectives(dump_folder(tmp_path / "32-cp2-tp1", backend, 1))
        assert {record["lowered"] for record in report.records} == where
