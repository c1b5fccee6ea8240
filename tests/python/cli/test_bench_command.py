"""`xla-shmem bench`: refused options, and the search for MPI."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from xla_shmem.bench import jobs
from xla_shmem.bench.plan import Plan
from xla_shmem.cli.main import main


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-b", "eight"], "'eight' is not a size in bytes such as 16MiB, 4K or 65536."),
        (["-b", "0"], "0 is less than 1."),
        (["-f", "1"], "1 is not in the range x>=2"),
        (["--op", "reduce"], "'reduce' is not one of"),
        (["--dtype", "f8"], "'f8' is not one of"),
        (["--vs", "gloo"], "'gloo' is neither one of stock, mpi (on CPUs) nor XLA_SHMEM_NAME=VALUE"),
        (["--vs", "XLA_SHMEM_SPIN=0"], "did you mean XLA_SHMEM_SPIN_US?"),
        (["-n", "4", "--groups", "3"], "--groups 3 does not divide 4 PEs"),
        (["--op", "all", "--in-place"], "all-gather cannot run in place"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(options: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["bench", *options])
    assert result.exit_code == 2
    assert words in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_a_picture_without_matplotlib_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["bench", "--png", str(tmp_path / "bench.png")])
    assert result.exit_code == 2
    assert "--png needs matplotlib: pip install 'xla-shmem[bench]'" in result.stderr


def test_mpi_without_its_wrapper_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MPITRAMPOLINE_LIB", raising=False)
    result = CliRunner().invoke(main, ["bench", "--vs", "mpi"])
    assert result.exit_code == 2
    assert "MPITRAMPOLINE_LIB is not set; build https://github.com/eschnett/MPIwrapper" in result.stderr
    monkeypatch.setenv("MPITRAMPOLINE_LIB", str(tmp_path / "gone.so"))
    assert "gone.so, which is not a file" in CliRunner().invoke(main, ["bench", "--vs", "mpi"]).stderr


def test_mpi_without_mpirun_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrapper = tmp_path / "libmpiwrapper.so"
    wrapper.touch()
    monkeypatch.setenv("MPITRAMPOLINE_LIB", str(wrapper))
    result = CliRunner().invoke(main, ["bench", "--vs", "mpi", "--mpirun", "no-such-mpirun --bind-to none"])
    assert result.exit_code == 2
    assert "there is no no-such-mpirun; install an MPI" in result.stderr


def test_mpi_ranks_yield_if_there_are_more_of_them_than_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_MCA_mpi_yield_when_idle", raising=False)
    plan = Plan(processes=4, rivals=("mpi",))
    assert jobs.mpi_environment(plan, cores=2)["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert "OMPI_MCA_mpi_yield_when_idle" not in jobs.mpi_environment(plan, cores=4)
    monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", "0")
    assert "OMPI_MCA_mpi_yield_when_idle" not in jobs.mpi_environment(plan, cores=2)
