"""Collectives that cross hosts, divided: the part between hosts on MPI, the default backend of the job.

Needs mpirun (Open MPI 4), and MPITRAMPOLINE_LIB as in docs/bench.md, "Against MPI".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import FLAG, environment
from mpi_on_hosts import COORDINATOR, mpirun_command
from run_on_hosts import hosts_command

HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun"),
    pytest.mark.skipif(not os.environ.get("MPITRAMPOLINE_LIB"), reason="MPITRAMPOLINE_LIB is not set"),
]

_LEFT = ["all-gather", "all-reduce", "all-to-all", "collective-permute"]
_PARTS = ["all_gather_parts", "all_to_all_parts", "collective_permute_parts", "reduce_scatter_parts"]


@pytest.mark.parametrize(("hierarchical", "ours"), [("off", []), ("on", _PARTS)])
def test_values_are_right(tmp_path: Path, hierarchical: str, ours: list[str]) -> None:
    variables = {
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "mpi",
        "JAX_COORDINATOR_ADDRESS": COORDINATOR,
        "JAX_COORDINATOR_BIND_ADDRESS": COORDINATOR,
        "XLA_FLAGS": FLAG,
        "XLA_SHMEM_OPS": "all",
        "XLA_SHMEM_HIERARCHICAL": hierarchical,
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "PYTHONPATH": str(HERE.parent / "e2e"),
    }
    environ = environment(tmp_path, variables) | variables
    worker = [sys.executable, str(HERE.parent / "e2e" / "worker_mpi.py")]
    command = [*hosts_command([2, 2], limit=120, between=True), *mpirun_command([2, 2], tmp_path), *worker]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=140, check=False)
    reports = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.jsonl"))]
    assert reports == [{"ours": ours, "left": _LEFT}] * 4, run.stdout + run.stderr
