"""Collectives that cross hosts, divided: the part between hosts on MPI, the default backend of the job.

Needs mpirun (Open MPI 4), and MPITRAMPOLINE_LIB as in docs/bench.md, "Against MPI".
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from job_runs import FLAG, environment
from mpi_on_hosts import COORDINATOR, mpirun_command
from run_on_hosts import hosts_command

from xla_shmem.launch.launcher_process import LAUNCHER
from xla_shmem.options import tuning_table as tables

HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun"),
    pytest.mark.skipif(not os.environ.get("MPITRAMPOLINE_LIB"), reason="MPITRAMPOLINE_LIB is not set"),
]

_OVER_MPI = {
    "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "mpi",
    "JAX_COORDINATOR_ADDRESS": COORDINATOR,
    "JAX_COORDINATOR_BIND_ADDRESS": COORDINATOR,
    "OMPI_MCA_mpi_yield_when_idle": "1",
}

_LEFT = ["all-gather", "all-reduce", "all-to-all", "collective-permute"]
_PARTS = ["all_gather_parts", "all_to_all_parts", "collective_permute_parts", "reduce_scatter_parts"]


@pytest.mark.parametrize(("hierarchical", "ours"), [("off", []), ("on", _PARTS)])
def test_values_are_right(tmp_path: Path, hierarchical: str, ours: list[str]) -> None:
    variables = {
        **_OVER_MPI,
        "XLA_FLAGS": FLAG,
        "XLA_SHMEM_OPS": "all",
        "XLA_SHMEM_HIERARCHICAL": hierarchical,
        "PYTHONPATH": str(HERE.parent / "e2e"),
    }
    environ = environment(tmp_path, variables) | variables
    worker = [sys.executable, str(HERE.parent / "e2e" / "worker_mpi.py")]
    command = [*hosts_command([2, 2], limit=120, between=True), *mpirun_command([2, 2], tmp_path), *worker]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=140, check=False)
    reports = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.jsonl"))]
    assert reports == [{"ours": ours, "left": _LEFT}] * 4, run.stdout + run.stderr


def test_tune_measures_divided_collectives_against_mpi(tmp_path: Path) -> None:
    table = tmp_path / "tuning.json"
    launcher = shlex.join(mpirun_command([2, 2], tmp_path))
    cells = ["--op=all-reduce", "--op=all-gather", "--groups=2,4", "--min-bytes=8", "--max-bytes=64K"]
    options = [*cells, "--step-factor=8192", "--iterations=4", "--rounds=2", f"--output={table}"]
    tune = [*LAUNCHER[:-1], "tune", "--launcher", launcher, "-n4", "--platform=cpu", *options]
    command = [*hosts_command([2, 2], limit=120, between=True), *tune]
    run = subprocess.run(command, env=os.environ | _OVER_MPI, capture_output=True, text=True, timeout=140, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    found = tables.load(table)
    assert found.fingerprint["JAX's CPU collectives"] == "mpi"
    assert {row.domains for row in found.rows if row.default is not None} == {1, 2}, run.stdout
