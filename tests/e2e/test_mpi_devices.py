"""JAX's MPI collectives abort with two devices a process (openxla/xla issue 16430); on SHMEM the same program runs.

Needs mpirun, and MPITRAMPOLINE_LIB as in docs/bench.md, "Against MPI".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import FLAG, HERE, environment

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun"),
    pytest.mark.skipif(not os.environ.get("MPITRAMPOLINE_LIB"), reason="MPITRAMPOLINE_LIB is not set"),
]


def _run(results: Path, flag: str) -> subprocess.CompletedProcess[str]:
    variables = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "mpi", "JAX_NUM_CPU_DEVICES": "2", "XLA_FLAGS": flag}
    options = ["-n", "2", "--oversubscribe", "--allow-run-as-root"]
    worker = [sys.executable, str(HERE / "worker_cluster.py"), "ompi"]
    environ = environment(results, variables) | {"OMPI_MCA_mpi_yield_when_idle": "1"}
    return subprocess.run(
        ["mpirun", *options, *worker], env=environ, capture_output=True, text=True, timeout=100, check=False
    )


def test_it_runs_with_the_flag(tmp_path: Path) -> None:
    run = _run(tmp_path, FLAG)
    assert run.returncode == 0, run.stdout + run.stderr
    for rank in (0, 1):
        assert json.loads((tmp_path / f"{rank}.jsonl").read_text()) == {"ranks": 2, "lowered": 2}


def test_stock_aborts(tmp_path: Path) -> None:
    run = _run(tmp_path, "")
    assert run.returncode != 0
    assert "Multiple threads/devices per process are not yet supported" in run.stdout + run.stderr
    assert not list(tmp_path.glob("*.jsonl"))
