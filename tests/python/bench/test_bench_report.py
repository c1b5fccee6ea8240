"""Table, JSON and picture of a benchmark with given times."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from terminals import Terminal

from xla_shmem.bench import picture, printed_table, results
from xla_shmem.bench.plan import Cell, Plan
from xla_shmem.bench.results import Row, Times
from xla_shmem.bench.text_columns import TextColumns
from xla_shmem.machine import describe_machine


def _row(op: str = "all-reduce", count: int = 1 << 20, **times: Times) -> Row:
    cell = Cell(op, count, "f32", "sum" if op == "all-reduce" else "", 4, in_place=False)
    large = cell.bytes >= 1 << 16
    return Row(cell, times, [9.0, 10.0, 11.0] if large else [], [] if large else [0.2, 0.3, 0.7])


WIDE = TextColumns(printed_table._COLUMNS)


def _times(*us: float, wrong: int | None = 0) -> Times:
    return Times(list(us), 10, wrong)


def test_bandwidths_limits_and_speed_up() -> None:
    row = _row(shmem=_times(1000.0, 2000.0, 3000.0), stock=_times(6000.0))
    assert row.algorithm_bandwidth("shmem") == pytest.approx((4 << 20) / 2e-3 / 1e9)
    assert row.bus_bandwidth("shmem") == pytest.approx(1.5 * (4 << 20) / 2e-3 / 1e9)
    assert row.speed_up("stock") == 3.0
    single, slots = row.memcpy_limits_us() or (0.0, 0.0)
    assert single == pytest.approx(1.5 * (4 << 20) / 10e9 * 1e6)
    assert slots == pytest.approx(2 * single)


def test_the_call_overhead_of_a_small_row_is_shown_once() -> None:
    row = _row(count=2, shmem=_times(3.0), stock=_times(6.0))
    shmem, stock = printed_table.row_lines(row, set(), WIDE)
    assert shmem.split()[-1] == "0.30"
    assert stock.split()[-1] == "2.00x"
    assert row.as_json()["empty_call_us"] == 0.3
    assert _row(shmem=_times(3.0)).as_json()["empty_call_us"] is None


def test_quantiles_are_interpolated() -> None:
    times = _times(30.0, 10.0, 20.0, 40.0)
    assert (times.quantile(0.0), times.median, times.quantile(1.0)) == (10.0, 25.0, 40.0)
    assert times.quantile(0.99) == pytest.approx(39.7)
    assert _times(5.0).quantile(0.99) == 5.0


def test_a_line_has_a_value_under_every_heading() -> None:
    row = _row(shmem=_times(1000.0), stock=_times(2500.0, wrong=None))
    heading = printed_table.heading(Plan(processes=4), describe_machine(), [], WIDE)
    shmem, stock = printed_table.row_lines(row, set(), WIDE)
    titles = " ".join(heading[-2].split())
    assert titles == "# op size count type redop group variant p50 p99 algbw busbw #wrong speed-up limit call"
    values = " ".join(shmem.split())
    assert values == "all-reduce 4194304 1048576 f32 sum 4 shmem 1000.00 1000.00 4.194 6.291 0 63/126"
    assert stock.split()[-4:] == ["2.517", "N/A", "2.50x", "25/50"]
    assert all(line.startswith("#") for line in heading)
    assert len(shmem) <= len(stock) <= len(heading[-2])


LONG = "collective-permute"


def test_a_narrow_terminal_gets_lines_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    form = printed_table.columns(Terminal(), ("stock", "nccl-fast"))
    row = _row(LONG, shmem=_times(1000.0), stock=_times(2500.0, wrong=123456))
    lines = [*printed_table.heading(Plan(processes=4), describe_machine(), [], form)[-2:]]
    lines += printed_table.row_lines(row, set(), form)
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == ["permute", "4194304", "shmem", "1000.00", "4.194", "0"]
    assert lines[3].split()[-1] == "2.50x"


def test_a_pipe_gets_every_column_without_padding() -> None:
    form = printed_table.columns(io.StringIO(), ("stock",))
    (line,) = printed_table.row_lines(_row(LONG, shmem=_times(1000.0)), set(), form)
    assert line.startswith(f"{LONG}\t4194304\t1048576\tf32\t")
    assert "  " not in line


def test_a_variant_that_did_not_run_is_reported_once() -> None:
    row = _row("collective-broadcast", shmem=_times(5.0), stock=Times(reason="XLA:CPU cannot"))
    printed: set[str] = set()
    assert printed_table.row_lines(row, printed, WIDE)[1] == "# stock cannot run collective-broadcast: XLA:CPU cannot"
    assert len(printed_table.row_lines(row, printed, WIDE)) == 1
    assert row.speed_up("stock") is None


def test_wrong_elements_of_all_variants_are_added_up() -> None:
    rows = [_row(shmem=_times(1.0, wrong=2), stock=_times(1.0, wrong=3)), _row(shmem=_times(1.0, wrong=None))]
    assert results.total_wrong(rows) == 5


def test_the_report_holds_the_machine_and_every_time(tmp_path: Path) -> None:
    file = tmp_path / "new" / "bench.json"
    rows = [_row(shmem=_times(1000.0, 2000.0), mpi=Times(reason="no")), _row(count=2, shmem=_times(3.0))]
    results.save_json(file, results.report(describe_machine(), rows))
    report = json.loads(file.read_text())
    assert {"date", "cpu", "cores", "kernel", "load", "versions", "rows"} <= set(report)
    large, small = report["rows"]
    assert large["variants"]["shmem"]["us"] == [1000.0, 2000.0]
    assert large["variants"]["mpi"] == {"reason": "no"}
    assert large["memcpy_limit"]["gb_per_s"] == 10.0
    assert small["memcpy_limit"] is None


def test_a_picture_has_two_operations_in_a_row(tmp_path: Path) -> None:
    rows = [
        _row(op, 1 << power, shmem=_times(1.0, 2.0, 4.0), stock=_times(8.0))
        for op in ("collective-permute", "all-reduce", "all-gather")
        for power in range(4, 20, 4)
    ]
    sizes = []
    for count in (1, 2, 3):
        png = tmp_path / f"{count}.png"
        left_out = _row("collective-broadcast", shmem=Times(reason="no"))
        picture.save_picture(png, "title", [*rows[: 4 * count], left_out])
        assert png.read_bytes().startswith(b"\x89PNG")
        sizes.append(_size(png))
    one, two, three = sizes
    assert two == (2 * one[0], one[1])
    assert three[0] == two[0]
    assert three[1] > 1.5 * two[1]


def _size(png: Path) -> tuple[int, int]:
    """Width and height (PNG specification, 11.2.2 IHDR)."""
    header = png.read_bytes()[16:24]
    return int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
