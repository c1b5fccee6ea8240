"""Each program, script and notebook in examples/ runs, and its collectives run on SHMEM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from shmem_statistics import calls_on_shmem
from slurm_cluster import cluster, installed, this_machine

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FLAG = "--xla_gpu_experimental_enable_nvshmem=true"
COMMAND = Path(sys.executable).with_name("xla-shmem")


def environment(**extra: str) -> dict[str, str]:
    """The environment of a user whose shell finds this Python: CPU only, no options, no outer job."""
    dropped = ("XLA_", "JAX_", "OMPI_", "SLURM_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    path = os.pathsep.join([str(COMMAND.parent), environ["PATH"]])
    return environ | {"PATH": path, "JAX_PLATFORMS": "cpu", "XLA_SHMEM_STATS": "1"} | extra


def test_ring_runs_on_four_ranks() -> None:
    run = subprocess.run(
        [COMMAND, "launch", "-n", "4", "--devices-per-process", "1", "--", "python", EXAMPLES / "ring.py"],
        env=environment(XLA_FLAGS=FLAG), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    output = run.stdout + run.stderr
    assert run.returncode == 0, output
    for rank in range(4):
        assert f"rank {rank} received [{(rank - 1) % 4}]" in output
    assert calls_on_shmem("collective-permute", output) == [1] * 4, output


def test_ring_has_twelve_lines_of_code() -> None:
    lines = (EXAMPLES / "ring.py").read_text().splitlines()[1:]
    assert len([line for line in lines if line]) == 12


def test_notebook_runs(tmp_path: Path) -> None:
    for name in ("shmem.ipynb", "ring.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    notebook = nbformat.read(tmp_path / "shmem.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    client = nbclient.NotebookClient(notebook, timeout=150, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=environment(NO_COLOR="1"))
    printed = [
        "".join(output.get("text", "") for output in cell.outputs).replace("\r", "")  # commands run in a terminal
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    assert sum("rank 1 received [0]" in text for text in printed) == 2, printed  # on SHMEM and on stock JAX
    assert [calls_on_shmem("collective-permute", text) for text in printed if "received" in text] == [[1, 1], []], (
        printed
    )
    assert any("NVSHMEM" in text and "collective-permute" in text for text in printed), printed


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="needs root, and slurmd, slurmctld, slurm-client and munge")
def test_slurm_script_runs_as_two_tasks(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    shutil.copy(EXAMPLES / "ring.py", job / "train.py")
    with cluster(tmp_path, [this_machine()], gpus=2) as slurm:
        # Only the numbers differ from the script's: this cluster has one node, with two GPUs that are only names.
        size = ["--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=2", "--output=out.txt"]
        submitted = subprocess.run(
            ["sbatch", "--wait", *size, EXAMPLES / "slurm.sbatch"],
            env=slurm | environment(PATH=f"{COMMAND.parent}:{slurm['PATH']}"),
            cwd=job, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    output = (job / "out.txt").read_text() if (job / "out.txt").exists() else ""
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr + output
    assert "rank 0 received [1]" in output
    assert "rank 1 received [0]" in output
    assert calls_on_shmem("collective-permute", output) == [1, 1], output
    (diagnosis,) = job.glob("doctor.*.txt")
    assert diagnosis.read_text().count("xla-shmem") >= 2


@pytest.mark.slow
@pytest.mark.skipif(not installed(), reason="needs root, and slurmd, slurmctld, slurm-client and munge")
def test_bench_starts_its_ranks_with_srun(tmp_path: Path) -> None:
    options = ["-n2", "--launcher=srun -n 2", "--op=permute", "-b64K", "-e64K", "--iterations=4", "--rounds=1"]
    report = tmp_path / "bench.json"
    with cluster(tmp_path, [this_machine()], gpus=2) as slurm:
        run = subprocess.run(
            [COMMAND, "bench", *options, f"--output={report}"],
            env=slurm | environment(PATH=f"{COMMAND.parent}:{slurm['PATH']}"),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    (row,) = json.loads(report.read_text())["rows"]
    assert {name: times["wrong"] for name, times in row["variants"].items()} == {"shmem": 0, "stock": 0}


def test_get_started_shows_the_ring() -> None:
    _, code = (EXAMPLES / "ring.py").read_text().split("\n\n", 1)
    assert code in (ROOT / "docs" / "index.md").read_text()


def test_the_page_of_jobs_has_the_slurm_script() -> None:
    assert (EXAMPLES / "slurm.sbatch").read_text() in (ROOT / "docs" / "running-jobs.md").read_text()
