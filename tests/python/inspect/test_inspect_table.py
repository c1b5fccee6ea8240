"""The tables of `xla-shmem inspect` on terminals and in pipes, and what they say of modules that lack something."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hlo_samples import ALL_GATHER, CPU_SYNC, NO_COLLECTIVE, many_collectives
from inspect_runs import inspect, inspected

from xla_shmem.hlo.collective_report import ModuleReport, grouped_reasons, summary

pytestmark = pytest.mark.usefixtures("no_options")

SOURCE = CPU_SYNC.replace("to_apply=%sum", 'to_apply=%sum, metadata={source_file="/a/train.py" source_line=7}')


def _terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")


def _lines(*arguments: str | Path) -> list[str]:
    result = inspect(*arguments)
    assert result.exit_code == 0, result.stderr
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout).splitlines()


def _headers(lines: list[str]) -> list[str]:
    return re.split(r" {2,}", next(line for line in lines if line.startswith("HLO name")).strip())


@pytest.mark.parametrize(
    ("columns", "headers"),
    [
        (80, ["HLO name", "op", "dtype", "bytes", "groups", "backend", "source"]),
        (64, ["HLO name", "op", "dtype", "bytes", "groups", "backend"]),
        (60, ["HLO name", "op", "bytes", "groups", "backend"]),
        (149, ["HLO name", "op", "dtype", "bytes", "groups", "backend", "rule", "source"]),
        (150, ["HLO name", "op", "dtype", "bytes", "groups", "backend", "rule", "computation", "source"]),
    ],
)
def test_a_terminal_gets_the_columns_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, headers: list[str]
) -> None:
    (tmp_path / "m.txt").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    _terminal(monkeypatch, columns)
    lines = _lines("m.txt")
    assert _headers(lines) == headers
    assert max(map(len, lines)) <= columns
    assert sum(line.startswith("permute ") for line in lines) == 1, "a collective is one line"


def test_eighty_columns_are_enough_for_many_collectives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.txt").write_text(many_collectives(60))
    monkeypatch.chdir(tmp_path)
    _terminal(monkeypatch, 80)
    lines = _lines("decide", "m.txt")
    assert max(map(len, lines)) <= 80
    assert len(lines) < 60 + 30
    assert sum("no size limit" in line for line in lines) == 1
    assert any("and 20 more" in line for line in lines)


def test_a_reason_is_told_once_with_its_collectives(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(many_collectives(6))
    groups = grouped_reasons(inspected("decide", tmp_path / "m.txt", "--devices-per-host", "64").values())
    permutes, sums = groups.items()
    assert permutes == (
        "single-device: one device per process (64 processes); collective-permute of its size, no size limit",
        ["move-start.0", "move-start.1", "move-start.3", "move-start.4"],
    )
    assert sums[1] == ["sum.2", "sum.5"]
    (tmp_path / "g.txt").write_text(ALL_GATHER)
    (alone,) = grouped_reasons(inspected("decide", tmp_path / "g.txt", "--ops", "all").values())
    assert "all-gather of 64 B" in alone, "the reason of one collective has its size"


def test_a_pipe_gets_a_line_with_everything_for_each_collective(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(SOURCE)
    lines = _lines("decide", tmp_path / "m.txt")
    (row,) = (line for line in lines if line.startswith("small"))
    for cell in ("all-reduce", "4.0 KiB", "1 × 4", "single-device", "main", "train.py:7", "< threshold 16.0 MiB"):
        assert cell in row
    assert "\x1b" not in inspect("decide", tmp_path / "m.txt").stdout


@pytest.mark.parametrize(
    ("old", "new", "name", "reason"),
    [
        ("{{0,1,2,3}}", "{{0,1,2,9}}", "small", "replica groups: device 9, but the module has 4"),
        ("{3,0}}", "{9,0}}", "permute", "source-target pairs: partition 9, but the module has 4"),
        ("{{0,1},{1,2},{2,3},{3,0}}", "{}", "permute", "it has no pairs"),
    ],
)
def test_unknown_groups_are_told_with_the_reason(tmp_path: Path, old: str, new: str, name: str, reason: str) -> None:
    assert old in CPU_SYNC
    (tmp_path / "m.txt").write_text(CPU_SYNC.replace(old, new))
    record = inspected(tmp_path / "m.txt")[name]
    assert (record["num_groups"], record["group_size"]) == (0, 0)
    assert record["reason"].endswith(f"; {reason}")
    (row,) = (line for line in _lines(tmp_path / "m.txt") if line.startswith(f"{name}\t"))
    assert "unknown" in row
    assert "0 × 0" not in row
    assert reason in row


def test_a_group_of_all_devices_of_an_unknown_number_is_told(tmp_path: Path) -> None:
    text = CPU_SYNC.replace(", num_partitions=4", "").replace("{{0,1,2,3}}", "{}")
    (tmp_path / "m.txt").write_text(text)
    reason = inspected(tmp_path / "m.txt")["small"]["reason"]
    assert reason.endswith("; its group is all devices, and the module does not contain their number")


UNPARTITIONED = {
    "sharded parameters and results": """\
HloModule jit_f, num_partitions=4

ENTRY %main {
  %x = f32[64,64]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  %y = f32[64,64]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = (f32[64,64]{1,0}) tuple(%y), sharding={{devices=[2,2]<=[4]}}
  ROOT %r = f32[64,64]{1,0} get-tuple-element(%t), index=0, sharding={devices=[2,2]<=[4]}
}
""",
    "a constraint": """\
HloModule jit_f

ENTRY %main {
  %x = f32[64,64]{1,0} parameter(0)
  ROOT %c = f32[64,64]{1,0} custom-call(%x), custom_call_target="Sharding", sharding={devices=[2,2]<=[4]}
}
""",
}


@pytest.mark.parametrize("module", UNPARTITIONED)
def test_a_module_before_partitioning_is_named(tmp_path: Path, module: str) -> None:
    path = tmp_path / "m.txt"
    path.write_text(UNPARTITIONED[module])
    for arguments in ([path], [path, "--json"], ["decide", path, "--num-devices", "4"], ["diff", path, path]):
        result = inspect(*arguments)
        assert result.exit_code == 0
        assert f"{path}: is not partitioned yet: it has shardings" in result.stderr
        assert "lowered.compile().as_text()" in result.stderr
    assert json.loads(inspect(path, "--json").stdout) == []


def test_a_compiled_module_is_not_taken_for_one_before_partitioning(tmp_path: Path) -> None:
    # XLA:GPU leaves the shardings of parameters, and callbacks to the host have one device.
    compiled = UNPARTITIONED["sharded parameters and results"].replace(
        "HloModule jit_f", "HloModule f, is_scheduled=true"
    )
    parameter = """\
HloModule m

ENTRY %e {
  %x = f32[64]{0} parameter(0), sharding={devices=[4]<=[4]}
  ROOT %c = f32[64]{0} custom-call(%x), custom_call_target="xla_ffi_python_cpu_callback", sharding={maximal device=0}
}
"""
    for text in (compiled, parameter, NO_COLLECTIVE, CPU_SYNC):
        (tmp_path / "m.txt").write_text(text)
        assert inspect(tmp_path / "m.txt").stderr == ""


def test_the_totals_say_what_came_of_the_decisions() -> None:
    ways = [("NVSHMEM", "DEFAULT"), ("DEFAULT", "DEFAULT"), ("NVSHMEM", "NVSHMEM"), ("NVSHMEM", "DEFAULT")]
    records = [{"backend": backend, "lowered": lowered} for backend, lowered in ways]
    assert summary([ModuleReport("m", "compiled now", records)]) == (
        "4 collectives in 1 module: 1 NVSHMEM, 2 NVSHMEM → DEFAULT, 1 DEFAULT."
    )
