"""Filters, totals and overlap of `xla-shmem inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hlo_samples import CPU_SYNC, gpu_start_done
from inspect_runs import inspect, inspected

from xla_shmem.inspect.overlap import find_overlaps
from xla_shmem.options.values import OPS
from xla_shmem.quantities import format_flops

LOOP = "while(%init), condition=%condition, body=%body"
COUNTED = CPU_SYNC.replace(LOOP, LOOP + ', backend_config={"known_trip_count":{"n":"8"}}')


@pytest.fixture
def cpu(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.txt"
    path.write_text(COUNTED)
    return path


@pytest.fixture
def gpu(tmp_path: Path) -> Path:
    path = tmp_path / "gpu.txt"
    path.write_text(gpu_start_done("NVSHMEM"))
    return path


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        (["--op", "all-reduce"], {"small", "large"}),
        (["--op", "all-reduce", "--op", "collective-permute"], {"small", "large", "permute"}),
        (["--op", "permute"], {"permute"}),
        (["--op", "all-gather"], set()),
        (["--min-bytes", "4096"], {"small", "large", "permute"}),
        (["--min-bytes", "4097"], {"large"}),
        (["--min-bytes", "16MiB"], {"large"}),
        (["--loop"], {"permute"}),
        (["--no-loop"], {"small", "large"}),
        (["--backend", "DEFAULT"], {"small", "large", "permute"}),
        (["--backend", "nvshmem"], set()),
        (["--no-loop", "--min-bytes", "1M", "--op", "all-reduce"], {"large"}),
    ],
)
def test_a_collective_must_meet_all_filters(cpu: Path, filters: list[str], left: set[str]) -> None:
    assert set(inspected(cpu, *filters)) == left


def test_filter_backend_is_the_one_that_runs_the_collective_and_not_the_decision(gpu: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.pb"
    layout = ["--devices-per-host", "4", "--nvlink-domain", "4"]
    assigned = inspect("decide", gpu, "--output", out, *layout)
    assert assigned.exit_code == 0, assigned.stderr
    assert {name: record["backend"] for name, record in inspected(out, "--backend", "DEFAULT").items()} == {
        "permute-start": "NVSHMEM"  # vetoed: it crosses domains
    }
    assert set(inspected(out, "--backend", "NVSHMEM")) == {"reduce-start"}


def test_an_unknown_op_is_an_error_that_lists_the_known_ones(cpu: Path) -> None:
    result = inspect(cpu, "--op", "all-reduce", "--op", "allreduce")
    assert result.exit_code == 2
    assert result.stderr == f"Error: --op allreduce: no such collective; use {', '.join(OPS)}.\n"


def test_an_invalid_size_is_an_error_of_one_sentence(cpu: Path) -> None:
    result = inspect(cpu, "--min-bytes", "4MB")
    assert result.exit_code == 2
    assert result.stderr == "Error: --min-bytes 4MB: must be a size in bytes such as 16MiB, 4K or 65536.\n"


def test_a_missing_path_is_an_error_of_one_sentence() -> None:
    result = inspect()
    assert result.exit_code == 2
    assert "Missing argument 'PATH...'" in result.stderr


def _row(output: str, *starts: str) -> str:
    return next(line for line in output.splitlines() if line.split()[: len(starts)] == list(starts))


def test_totals_multiply_by_the_trip_counts_of_loops(cpu: Path) -> None:
    row = _row(inspect(cpu).stdout, "collective-permute", "DEFAULT")
    assert row.split()[2:] == ["1", "8", "32.0", "KiB"]
    row = _row(inspect(cpu).stdout, "all-reduce", "DEFAULT")
    assert row.split()[2:] == ["2", "2", "16.0", "MiB"]


def test_totals_leave_out_unknown_trip_counts(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(CPU_SYNC)
    row = _row(inspect(tmp_path / "m.txt").stdout, "collective-permute", "DEFAULT")
    assert row.split()[2:5] == ["1", "0", "0"]
    assert row.rstrip().endswith("and 1 with an unknown number of runs")


def test_the_overlap_is_the_work_between_start_and_done(gpu: Path) -> None:
    records = inspected(gpu, "--overlap")
    overlap = records["permute-start"]["overlap"]
    assert (overlap["start"], overlap["done"]) == ("permute-start", "permute-done")
    assert overlap["compute"] == ["square"]
    assert overlap["flops"] == 8 * 1024
    assert overlap["bytes"] == 3 * 8 * 1024 * 2  # two operands and a result of bf16
    assert records["reduce-start"]["overlap"]["compute"] == []
    output = inspect(gpu, "--overlap").stdout
    assert "1 instruction, 8.2 kFLOP, 48.0 KiB" in output
    assert _row(output, "reduce-start", "16.0", "KiB", "nothing")


def test_synchronous_collectives_have_no_overlap(cpu: Path) -> None:
    assert {record["overlap"] for record in inspected(cpu, "--overlap").values()} == {None}


def test_the_flops_of_a_library_call_are_unknown() -> None:
    def step(name: str, category: str, flops: int | None, start: str | None = None) -> Any:
        is_collective = category == "collective"
        return {
            "name": name, "opcode": "", "category": category, "called": [], "flops": flops, "bytes": 8,
            "fused_attention": False, "start": start, "collective": is_collective,
        }  # fmt: skip

    steps = [
        step("a", "collective", 0),
        step("attention", "compute", None),
        step("b", "collective", 0),
        step("loop", "control", 0),
        step("b-done", "collective", 0, "b"),
        step("a-done", "collective", 0, "a"),
    ]
    schedule: Any = [{"name": "main", "executions": 1, "in_loop": False, "scheduled": True, "instructions": steps}]
    overlaps = find_overlaps(schedule)
    assert overlaps["main", "a"].flops is None
    assert overlaps["main", "a"].bytes == 8
    assert overlaps["main", "a"].collectives == 1
    assert overlaps["main", "b"].controls == ("loop",)
    assert overlaps["main", "b"].flops == 0


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 FLOP"), (999, "999 FLOP"), (1000, "1.0 kFLOP"), (999_960, "1.0 MFLOP"), (10**19, "10000.0 PFLOP")],
)
def test_flops_are_shown_in_decimal_units(count: int, text: str) -> None:
    assert format_flops(count) == text
