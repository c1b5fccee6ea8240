"""Jobs whose default backend is MPI (JAX's MPI collectives), on one host.

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


def _run(results: Path, flag: str, *worker: str, **variables: str) -> subprocess.CompletedProcess[str]:
    mpi = {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "mpi", "XLA_FLAGS": flag}
    options = ["-n", "2", "--oversubscribe", "--allow-run-as-root"]
    command = ["mpirun", *options, sys.executable, str(HERE / worker[0]), *worker[1:]]
    environ = environment(results, mpi | variables) | {"OMPI_MCA_mpi_yield_when_idle": "1"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)


def _reports(results: Path) -> list[dict[str, object]]:
    return [json.loads(file.read_text()) for file in sorted(results.glob("*.jsonl"))]


def test_two_devices_a_process_run_with_the_flag(tmp_path: Path) -> None:
    run = _run(tmp_path, FLAG, "worker_cluster.py", "ompi", JAX_NUM_CPU_DEVICES="2")
    assert run.returncode == 0, run.stdout + run.stderr
    assert _reports(tmp_path) == [{"ranks": 2, "lowered": 2}] * 2


def test_two_devices_a_process_abort_on_stock_jax(tmp_path: Path) -> None:
    # openxla/xla issue 16430
    run = _run(tmp_path, "", "worker_cluster.py", "ompi", JAX_NUM_CPU_DEVICES="2")
    assert run.returncode != 0
    assert "Multiple threads/devices per process are not yet supported" in run.stdout + run.stderr
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_collective_on_mpi_may_follow_one_on_shmem(tmp_path: Path) -> None:
    # MPI may be called by one thread only. So XLA must go on in it behind a collective of ours. Before that, the worker
    # runs collectives that become ready in any order: each keeps its thread, so ranks must start them in the same one.
    run = _run(tmp_path, FLAG, "worker_mpi.py")
    ours, left = ["all_reduce", "collective_permute"], ["all-gather", "all-to-all"]
    assert _reports(tmp_path) == [{"ours": ours, "left": left}] * 2, run.stdout + run.stderr
