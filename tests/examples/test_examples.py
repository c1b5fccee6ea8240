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


def test_notebook_runs_and_shows_decisions_explanations_and_differences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notebook = nbformat.read(EXAMPLES / "shmem.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    assert not [line for cell in notebook.cells for line in cell.source.splitlines() if line.startswith(("!", "%"))]
    client = nbclient.NotebookClient(notebook, timeout=150, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=environment(NO_COLOR="1"))
    printed, shown = [], []
    for output in (one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs):
        if output.output_type == "stream":
            printed.append(output.text)
        else:
            shown.append((output.data["text/plain"], output.data["text/html"]))
    # The devices begin with 0, 1, 2 and 3 Mi: device 0 has their sum, and receives what device 3 has.
    assert printed[:2] == ["sum of the first elements: 9437184\n", "largest difference: 0.0\n"], printed
    assert "Restart the process (in a notebook: the kernel)" in printed[2]
    # Two runs on four devices; the statistics come when the kernel ends.
    assert calls_on_shmem("collective-permute", capfd.readouterr().err) == [8]
    decisions, explained, elsewhere, difference = shown
    for form in decisions:
        assert form.count("NVSHMEM") >= 2, form
        assert "collective-permute" in form
    assert "single-partition" in explained[0]
    assert "not divided: 2 NVLink domains × 2 devices" in " ".join(elsewhere[0].split())
    assert "0 vanished, 0 appeared, 2 changed, 0 equal." in difference[0]


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
