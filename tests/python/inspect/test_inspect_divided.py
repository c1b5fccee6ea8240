"""`xla-shmem inspect` of collectives that cross hosts and are divided."""

from __future__ import annotations

from pathlib import Path

import pytest
from hlo_samples import CPU_SYNC, gpu_start_done
from inspect_runs import inspect, inspected

pytestmark = pytest.mark.usefixtures("no_options")

# Four processes, two on each host.
LAYOUT = ("--devices-per-host", "2", "--num-devices", "4")


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    path = tmp_path / "stock.txt"
    path.write_text(CPU_SYNC.replace("{{0,1},{2,3}}", "{{0,1,2,3}}"))
    return path


@pytest.fixture
def divided(stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLA_SHMEM_HIERARCHICAL", "on")
    path = tmp_path / "divided.pb"
    result = inspect("decide", stock, *LAYOUT, "--output", path)
    assert result.exit_code == 0, result.stderr
    return path


def test_each_part_is_a_row_with_the_whole_and_the_reason(divided: Path) -> None:
    parts = [record for record in inspected(divided).values() if record["part_of"] == "small"]
    assert [(part["op"], part["lowered"]) for part in parts] == [
        ("reduce-scatter", "NVSHMEM"),
        ("all-reduce", "DEFAULT"),
        ("all-gather", "NVSHMEM"),
    ]
    assert all("2 NVLink domains × 2 devices" in part["reason"] for part in parts)
    assert "part of small: " in " ".join(inspect(divided).stdout.split())


def test_a_part_is_explained_by_the_whole(divided: Path) -> None:
    output = " ".join(inspect("explain", divided, "small.all-reduce", *LAYOUT).stdout.split())
    assert "Runs on DEFAULT by hierarchical: part of small: reduces the chunks between NVLink domains" in output


def test_the_rule_is_asked_last_and_explained(stock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_SHMEM_HIERARCHICAL", "on")
    output = " ".join(inspect("explain", stock, "small", *LAYOUT).stdout.split())
    assert "Decision: HIERARCHICAL by hierarchical" in output


def test_on_gpu_the_collective_itself_is_the_part_between_domains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = tmp_path / "gpu.txt"
    stock.write_text(gpu_start_done(None))
    monkeypatch.setenv("XLA_SHMEM_HIERARCHICAL", "on")
    records = inspected("decide", stock, "--nvlink-domain", "2")
    found = [(r["op"], r["lowered"]) for r in records.values() if r["part_of"] == "reduce-start"]
    assert found == [("reduce-scatter", "NVSHMEM"), ("all-reduce", "DEFAULT"), ("all-gather", "NVSHMEM")]
    monkeypatch.setenv("XLA_SHMEM_HIERARCHICAL", "auto")
    whole = inspected("decide", stock, "--nvlink-domain", "2")
    assert whole["reduce-start"]["veto"].endswith("XLA_SHMEM_HIERARCHICAL is auto, which divides nothing on GPU")
