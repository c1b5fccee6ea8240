"""`xla-shmem inspect`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hlo_samples import CPU_SYNC, GPU_GENERIC_ASYNC, NO_COLLECTIVE, gpu_start_done
from inspect_runs import inspect, inspected

from xla_shmem.quantities import format_bytes

KEYS = {
    "name",
    "op",
    "dtype",
    "bytes",
    "group_size",
    "num_groups",
    "backend",
    "lowered",
    "veto",
    "rule",
    "reason",
    "computation",
    "module",
    "file",
}


def test_json_names_every_collective_with_all_its_keys(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(CPU_SYNC)
    records = inspected(tmp_path / "m.txt")
    assert set(records) == {"small", "large", "permute"}
    assert all(set(record) >= KEYS for record in records.values())
    small, large, permute = records["small"], records["large"], records["permute"]
    assert (small["op"], small["dtype"], small["bytes"]) == ("all-reduce", "f32", 4096)
    assert (small["num_groups"], small["group_size"]) == (1, 4)
    assert (large["bytes"], large["num_groups"], large["group_size"]) == (16 << 20, 2, 2)
    assert permute["op"] == "collective-permute"
    assert permute["computation"] == "body"
    assert permute["in_loop"] is True
    assert small["in_loop"] is False
    assert (small["module"], small["file"]) == ("jit_step", str(tmp_path / "m.txt"))


@pytest.mark.parametrize(("written", "backend"), [("NVSHMEM", "NVSHMEM"), ("DEFAULT", "DEFAULT"), (None, "DEFAULT")])
def test_backend_of_stock_modules_is_what_their_backend_config_says(
    tmp_path: Path, written: str | None, backend: str
) -> None:
    (tmp_path / "m.txt").write_text(gpu_start_done(written))
    records = inspected(tmp_path / "m.txt")
    assert {record["backend"] for record in records.values()} == {backend}
    start = records["permute-start"]
    assert (start["dtype"], start["bytes"]) == ("bf16", 16384)


def test_generic_async_pair_is_one_collective_under_the_name_of_its_start(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(GPU_GENERIC_ASYNC)
    records = inspected(tmp_path / "m.txt")
    assert set(records) == {"permute-start", "psum"}
    assert records["permute-start"]["op"] == "collective-permute"
    assert records["permute-start"]["bytes"] == 1024
    assert records["permute-start"]["computation"] == "main"


def test_table_shows_what_the_json_says(tmp_path: Path) -> None:
    (tmp_path / "m.txt.gz").write_bytes(gzip.compress(gpu_start_done("NVSHMEM").encode()))
    result = inspect(tmp_path / "m.txt.gz")
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.startswith("reduce-start"))
    for cell in ("bf16", "16.0 KiB", "2 × 4", "NVSHMEM", "main"):
        assert cell in row
    assert result.stdout.endswith("2 collectives in 1 module: 2 NVSHMEM.\n")


def test_rewritten_module_shows_its_decisions(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(CPU_SYNC)
    expected = inspected("decide", tmp_path / "m.txt", "--output", tmp_path / "o.pb")
    records = inspected(tmp_path / "o.pb")
    assert set(records) == set(expected)
    for name, record in records.items():
        for key in (
            "op",
            "dtype",
            "bytes",
            "num_groups",
            "group_size",
            "backend",
            "lowered",
            "rule",
            "reason",
        ):
            assert record[key] == expected[name][key], (name, key)


def test_several_inputs_make_one_list(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(CPU_SYNC)
    (tmp_path / "b.txt").write_text(gpu_start_done(None))
    records = inspected(tmp_path / "a.txt", tmp_path / "b.txt")
    assert {record["module"] for record in records.values()} == {"jit_step", "jit_ring"}


def test_dump_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt").write_text(CPU_SYNC)
    (tmp_path / "module_0001.jit_step.before_optimizations.txt").write_text(CPU_SYNC)
    assert len(inspected(tmp_path)) == 3


def test_standard_input_is_read() -> None:
    result = inspect("-", "--json", stdin=CPU_SYNC.encode())
    assert {record["file"] for record in json.loads(result.stdout)} == {"<stdin>"}


def test_module_without_collectives_says_so(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(NO_COLLECTIVE)
    assert inspect(tmp_path / "m.txt").stdout == "No collectives in 1 module.\n"
    assert json.loads(inspect(tmp_path / "m.txt", "--json").stdout) == []


def test_bad_input_is_one_sentence_on_stderr_and_2(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("not HLO at all")
    (tmp_path / "good.txt").write_text(CPU_SYNC)
    result = inspect("--json", tmp_path / "good.txt", tmp_path / "m.txt")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {tmp_path}/m.txt: is not an HLO")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4.0 KiB"),
        (16 << 20, "16.0 MiB"),
        (3 << 40, "3.0 TiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_bytes_are_shown_in_binary_units(count: int, text: str) -> None:
    assert format_bytes(count) == text
