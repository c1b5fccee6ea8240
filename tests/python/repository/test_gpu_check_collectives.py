"""The section `collectives` of the GPU check: a variant that fails is left out, and the others go on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

from gpu_check import collectives, records  # noqa: E402

from xla_shmem.bench.jobs import JobFailed  # noqa: E402
from xla_shmem.bench.plan import Plan  # noqa: E402
from xla_shmem.bench.results import Row, Times  # noqa: E402
from xla_shmem.gpu.chosen_gpus import Gpus  # noqa: E402
from xla_shmem.options import tuning_table  # noqa: E402
from xla_shmem.options.tuning_table import Measured, TunedRow  # noqa: E402

BASE = Plan(processes=2, gpus=Gpus(("NVIDIA H100",) * 2, "580"))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    monkeypatch.setenv(records.VARIABLE, str(path))
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.delenv(records.EMULATED, raising=False)
    return path


def _measured(monkeypatch: pytest.MonkeyPatch, failures: list[JobFailed]) -> list[tuple[str, int, list[str]]]:
    """Measures with jobs that fail, the next one at each second plan; returns op, size and variants of each row."""
    calls = 0

    @contextlib.contextmanager
    def running_jobs(plan: Plan) -> Iterator[dict[str, object]]:
        yield dict.fromkeys(["shmem", *plan.rivals])

    def measure(plan: Plan, running: dict[str, object]) -> Iterator[Row]:
        nonlocal calls
        calls += 1
        if calls % 2 == 0 and failures:
            raise failures.pop(0)
        (cell,) = plan.cells()
        yield Row(cell, {name: Times(us=[1.0]) for name in running})

    monkeypatch.setattr(collectives, "running_jobs", running_jobs)
    monkeypatch.setattr(collectives, "measure", measure)
    rows = collectives.measured(collectives.plans(BASE, False), ("stock", "nccl-fast", "xla-kernels"))
    return [(row.cell.op, row.cell.bytes, list(row.times)) for row in rows]


def test_each_size_has_all_collectives_once_whatever_fails(monkeypatch: pytest.MonkeyPatch, found: Path) -> None:
    failures = [JobFailed("it crashed", "nccl-fast"), JobFailed("NCCL crashed", "shmem", "stock")]
    rows = _measured(monkeypatch, failures)
    assert [(op, size) for op, size, _ in rows] == [
        (plan.ops[0], plan.min_bytes) for plan in collectives.plans(BASE, False)
    ]
    assert [names for _, _, names in rows[:4]] == [
        ["shmem", "stock", "nccl-fast", "xla-kernels"],
        ["shmem", "stock", "xla-kernels"],
        ["shmem", "xla-kernels"],
        ["shmem", "xla-kernels"],
    ]
    left = [(record["name"], record["reason"]) for record in records.read(found)]
    assert left == [
        ("nccl-fast from collective-permute of 262144 bytes on", "it crashed"),
        ("stock from all-gather of 262144 bytes on", "NCCL crashed"),
    ]


def test_a_failure_is_told_with_its_first_error() -> None:
    output = "Last lines of its output:\n  [0] W1124 fine\n  [1] jax.errors.JaxRuntimeError: INTERNAL: NCCL\n  [1] at x"
    short = collectives.in_short(JobFailed(f"the shmem job lost rank 1 in 'check'. {output}", "shmem"))
    assert short == "the shmem job lost rank 1 in 'check'. [1] jax.errors.JaxRuntimeError: INTERNAL: NCCL"


def test_without_shmem_there_is_nothing_to_measure(monkeypatch: pytest.MonkeyPatch, found: Path) -> None:
    with pytest.raises(JobFailed, match="lost"):
        _measured(monkeypatch, [JobFailed("lost rank 1", "shmem", "shmem")])


def test_a_job_that_fails_as_a_whole_takes_all_its_variants_but_shmem_with_it() -> None:
    rivals = ("stock", "nccl-fast")
    assert collectives.to_blame(JobFailed("", "shmem"), rivals) == ["stock"]
    assert collectives.to_blame(JobFailed("", "nccl-fast"), rivals) == ["nccl-fast"]
    assert collectives.to_blame(JobFailed("late", "xla-kernels"), rivals) == []


def test_times_spread_and_ratio_are_in_the_report_and_wrong_elements_fail(found: Path) -> None:
    (cell,) = collectives.plans(BASE, True)[0].cells()
    slow, wrong = Times(us=[2.0, 3.0, 4.0], wrong=0), Times(us=[6.0, 6.0], wrong=5)
    collectives.record("A table", BASE, Row(cell, {"shmem": slow, "stats": wrong, "trace": Times(reason="no")}))
    lines = records.read(found)
    checks = {record["name"]: (record["ok"], record["detail"]) for record in lines if record["kind"] == "check"}
    what = "collective-permute of 16384 bytes"
    assert checks[f"{what} runs on SHMEM"] == (True, "")
    assert checks[f"{what} by shmem"] == (True, "")
    assert checks[f"{what} by stats"] == (False, "5 elements wrong")
    first, second = (record["columns"] for record in lines if record["kind"] == "row")
    assert (first["µs"], first["p25 µs"], first["p75 µs"], first["% of SHMEM's time"]) == (3.0, 2.5, 3.5, 100.0)
    assert (second["by"], second["% of SHMEM's time"], second["shared GPU"]) == ("stats", 200.0, "no")
    assert {"kind": "left out", "name": "collective-permute by trace", "reason": "no"} in lines


def test_variants_that_cannot_run_are_named_once(found: Path) -> None:
    alone = Plan(processes=2, gpus=Gpus(("NVIDIA H100",), "580"))
    assert collectives.chosen_variants(alone, False) == (
        "XLA_SHMEM_GPU_PERMUTE=kernel",
        "XLA_SHMEM_GPU_PERMUTE=copies",
    )
    left = {record["name"]: record["reason"] for record in records.read(found) if record["kind"] == "left out"}
    assert left["stock (JAX's default backend)"] == "NCCL refuses two ranks on one GPU"
    assert len(left) >= 4
    assert collectives.chosen_variants(alone, True) == collectives._RECORDING


def test_the_table_beside_the_report_is_one_that_the_profile_reads(
    monkeypatch: pytest.MonkeyPatch, found: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv(records.OUT, str(tmp_path))
    row = TunedRow(
        "all-gather", "f32", 2, 64, Measured.of([2.0]), Measured.of([9.0]), ways={"nccl": Measured.of([4.0])}
    )
    collectives.save_table(BASE, [row])
    table = tuning_table.load(tmp_path / "tuning.json")
    assert table.rows == (row,)
    assert table.platform == "gpu"
    assert table.measured["plan"]["processes"] == 2
    assert [record["name"] for record in records.read(found)] == ["tuning table"]


def test_without_nccl_there_is_no_table(monkeypatch: pytest.MonkeyPatch, found: Path, tmp_path: Path) -> None:
    monkeypatch.setenv(records.OUT, str(tmp_path))
    collectives.save_table(BASE, [])
    assert {"kind": "left out", "name": "tuning table", "reason": "NCCL was not measured"} in records.read(found)
    assert not (tmp_path / "tuning.json").exists()
