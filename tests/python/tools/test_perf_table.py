"""The table of collective times that `tools/perf_table.py` writes for XLA's scheduler."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tuning_tables import here, row

from perf_table import Target, main, perf_table, sizes, target_of
from xla_shmem import _core
from xla_shmem.options import resolve
from xla_shmem.options import tuning_table as tables
from xla_shmem.predict.cluster import read_cluster

pytestmark = pytest.mark.usefixtures("no_options")

_H100 = target_of(read_cluster("h100-sxm"), "h100")
_ENTRY = re.compile(
    r'opcode: "(?P<op>\S+)" shape \{ element_type: F32 dimensions: (?P<elements>\d+) '
    r".*?(num_devices_per_group: (?P<group>\d+)|source_target_pairs).*bytes_per_sec: (?P<speed>\d+)"
)


def _times(text: str) -> dict[tuple[str, int, int], float]:
    """The times in µs that XLA reads from a table: by op, bytes of the result, and group (2 for permutes)."""
    times = {}
    for found in _ENTRY.finditer(text):
        op, size, group = found["op"], 4 * int(found["elements"]), int(found["group"] or 2)
        transferred = size * group if op == "reduce-scatter" else size
        times[op, size, group] = transferred / int(found["speed"]) * 1e6
    return times


def test_the_keys_are_xlas_names_of_the_gpus() -> None:
    assert _H100.key == "sm_90"
    assert target_of(read_cluster("gb200-nvl72"), "gb200").key == "sm_100_GB200"
    assert dataclasses.replace(_H100, compute_capability=(10, 3), name="NVIDIA GB300").key == "sm_103"
    assert f'key: "{_H100.key}"' in perf_table(_H100, resolve())


def test_large_domains_need_a_flag() -> None:
    assert _H100.flags == []
    assert target_of(read_cluster("gb200-nvl72"), "gb200", 8).flags == [
        "--xla_gpu_analytical_latency_estimator_options=gpus_per_node=72,partition_size=72"
    ]


def test_every_size_has_every_group_and_divides_evenly() -> None:
    groups = [2, 4, 8]
    found = sizes(groups)
    assert found[0] == 4
    assert found[-1] == 1 << 30
    assert all(later / size <= 2 for size, later in itertools.pairwise(found))
    assert all(later / size < 1.27 for size, later in itertools.pairwise(found) if size > 256)
    assert all(size % 32 == 0 for size in found if size >= 32)
    times = _times(perf_table(_H100, resolve()))
    for size in found:
        assert {group for op, bytes, group in times if (op, bytes) == ("all-reduce", size)} == set(groups)
        assert (("all-gather", size, 8) in times) == (size % 32 == 0)
        assert ("collective-permute", size, 2) in times


def test_times_are_those_of_the_backend_that_the_rules_choose() -> None:
    size = 64 << 20
    nvshmem, nccl = _core.expected_times("all-reduce", size, 2, 8, "hopper") or (0, 0)
    by_rules = {
        (): nccl,  # above the threshold of 16 MiB
        (("threshold", "none"),): nvshmem,
        (("ops", "collective-permute"),): nccl,
        (("profile", "domain"),): min(nvshmem, nccl),
    }
    assert nvshmem < nccl
    for overrides, us in by_rules.items():
        times = _times(perf_table(_H100, resolve(overrides=dict(overrides))))
        assert times["all-reduce", size, 2] == pytest.approx(us, rel=1e-3)
    permute = _core.expected_times("collective-permute", size, 2, 8, "hopper") or (0, 0)
    assert _times(perf_table(_H100, resolve()))["collective-permute", size, 2] == pytest.approx(permute[0], rel=1e-3)


def test_a_reduce_scatter_is_counted_by_its_operand() -> None:
    times = _times(perf_table(_H100, resolve(overrides={"ops": "all"})))
    expected = _core.expected_times("reduce-scatter", 1 << 20, 8, 8, "hopper") or (0, 0)
    assert times["reduce-scatter", 1 << 20, 8] == pytest.approx(expected[0], rel=1e-3)


def test_times_over_several_domains_are_no_times_of_one() -> None:
    def planned(domains: int) -> float | None:
        table = _core.TuningTable([("all-reduce", "f32", 8, 1024, (3.0,) * 3, (40.0,) * 3, domains, {})])
        return _core.planned_time("all-reduce", 1024, 8, 8, profile="tuned", tuning=table, gpu="hopper")

    assert planned(1) == 3.0
    assert planned(2) != 3.0


def test_measured_times_come_before_the_model(tmp_path: Path) -> None:
    measured = dataclasses.replace(here(row("all-reduce", 1024, 3.0, 40.0)), platform="gpu")
    path = tmp_path / "tuning.json"
    tables.save(path, measured, complete=True)
    options = resolve(overrides={"profile": "tuned", "tuning": path}, any_machine=True)
    times = _times(perf_table(_H100, options))
    assert times["all-reduce", 1024, 2] == pytest.approx(3.0, rel=1e-3)
    gather = _core.expected_times("all-gather", 1 << 20, 8, 8, "hopper") or (0, 0)
    assert times["all-gather", 1 << 20, 8] == pytest.approx(gather[1], rel=1e-3), "unmeasured, so it stays on NCCL"


def test_gpus_without_a_model_have_an_empty_table() -> None:
    assert _times(perf_table(Target((8, 0), "NVIDIA A100", 8, 8), resolve())) == {}


def test_the_command_writes_the_table_and_says_how_to_use_it(tmp_path: Path) -> None:
    path = tmp_path / "table.pbtxt"
    result = CliRunner().invoke(main, [str(path), "--cluster", "h100-sxm"])
    assert result.exit_code == 0, result.stderr
    assert f"--xla_gpu_experimental_collective_perf_table_path={path}" in result.stdout
    assert path.read_text() == perf_table(_H100, resolve())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "v100"], "'v100' is not one of 'a100', 'gb200', 'h100'"),
        (["--cluster", "none"], "neither a file nor one of"),
    ],
)
def test_bad_usage_is_one_sentence(options: list[str], words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(tmp_path / "t"), *options])
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())
