"""What a report prints to a terminal, and to a file or a pipe."""

from __future__ import annotations

import re

import pytest
from rich.console import Group
from rich.text import Text
from terminals import Terminal

from xla_shmem.console import report_console, report_table


def _print() -> None:
    table = report_table()
    table.title = "a title"
    table.add_column("op", justify="right")
    table.add_column("reason")
    table.add_row("all-reduce", Text("it is small", style="green"))
    table.add_row("permute", "[bold]it is[/] large, " + "very " * 40 + "large")
    console = report_console()
    console.print(table)
    console.print("a sentence", style="red")


def test_a_pipe_gets_cells_with_tabs_between_them_and_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    _print()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["a title", "op\treason", "all-reduce\tit is small"]
    assert lines[3] == "permute\tit is large, " + "very " * 40 + "large"
    assert lines[4:] == ["a sentence"]


def test_a_pipe_gets_the_parts_of_a_report_without_padding(capsys: pytest.CaptureFixture[str]) -> None:
    table = report_table()
    table.show_header = False
    table.add_column()
    table.add_column()
    table.add_row("op", "all-reduce")
    table.add_row("overlaps with", "nothing")
    report_console().print(Group("psum.1", table, "on NVSHMEM"))
    assert capsys.readouterr().out == "psum.1\nop\tall-reduce\noverlaps with\tnothing\non NVSHMEM\n"


def test_a_pipe_gets_no_line_for_headings_that_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = report_table()
    table.show_header = False
    table.add_column()
    table.add_column()
    table.add_row("CPU", "two\nlines")
    report_console().print(table)
    assert capsys.readouterr().out == "CPU\ttwo lines\n"


def test_a_terminal_gets_padded_columns_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    for name, value in {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", terminal)
    _print()
    lines = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in terminal.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert "all-reduce  it is small" in lines
