"""XLA's scheduler with the times of `tools/perf_table.py`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiler_runs import FLAG, Compiler, Run
from programs import DEVICES

from perf_table import perf_table, target_of
from xla_shmem import _core
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import read_cluster

_PROGRAMS = ["permute_overlap", "psum_overlap", "all_gather_overlap", "reduce_scatter_overlap"]
_RULES = {"profile": "domain", "ops": "all"}


def _compile(compiler: Compiler, name: str, table: Path | None) -> Run:
    flags = [FLAG] if table is None else [FLAG, f"--xla_gpu_experimental_collective_perf_table_path={table}"]
    says = {"TF_CPP_VMODULE": "sol_latency_estimator=10", "TF_CPP_MIN_LOG_LEVEL": "0"}
    return compiler.run(name, _PROGRAMS, flags, **says)


def _times(run: Run) -> list[float]:
    """The times in µs by which XLA scheduled, in its order."""
    return [float(us) for us in re.findall(r"Computed collective time for \S+: (\S+) us", run.log)]


@pytest.fixture(scope="module")
def table() -> str:
    return perf_table(target_of(read_cluster("h100-sxm"), "h100", DEVICES), resolve(overrides=_RULES))


@pytest.fixture(scope="module")
def with_table(compiler: Compiler, table: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("perf_table") / "table.pbtxt"
    path.write_text(table)
    return _compile(compiler, "with_table", path)


@pytest.fixture(scope="module")
def without(compiler: Compiler) -> Run:
    return _compile(compiler, "without_table", None)


def test_xla_schedules_by_the_times_of_the_table(with_table: Run) -> None:
    rules = resolve(overrides=_RULES).rules("gpu")
    del rules["hierarchical"]  # a table has collectives within one NVLink domain
    expected = []
    for program in _PROGRAMS:
        for record in with_table.records[program]:
            us = _core.planned_time(record["op"], record["bytes"], record["group_size"], DEVICES, **rules, gpu="hopper")
            assert us is not None
            expected.append(us)
    found = _times(with_table)
    assert len(found) == len(expected)
    for us, planned in zip(sorted(found), sorted(expected), strict=True):
        assert us == pytest.approx(planned, rel=0.1)


def test_without_it_xla_has_other_times(with_table: Run, without: Run) -> None:
    assert len(_times(without)) == len(_times(with_table))
    for ours, nccls in zip(_times(with_table), _times(without), strict=True):
        assert ours != pytest.approx(nccls, rel=0.01)


def test_a_table_that_is_ten_times_slower_makes_xlas_times_ten_times_longer(
    compiler: Compiler, table: str, with_table: Run, tmp_path: Path
) -> None:
    slow = re.sub(r"(bytes_per_sec: \d+)\d", r"\1", table)
    (tmp_path / "slow.pbtxt").write_text(slow)
    found = _times(_compile(compiler, "slow_table", tmp_path / "slow.pbtxt"))
    assert found == pytest.approx([10 * us for us in _times(with_table)], rel=1e-3)


def test_a_damaged_table_changes_nothing(compiler: Compiler, table: str, without: Run, tmp_path: Path) -> None:
    (tmp_path / "damaged.pbtxt").write_text(table[: len(table) // 2])
    assert _times(_compile(compiler, "damaged_table", tmp_path / "damaged.pbtxt")) == _times(without)
