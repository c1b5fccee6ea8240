"""The table of decisions in the log, in the width of where the log goes."""

from __future__ import annotations

import io
import logging

import pytest
from hlo_samples import CPU_SYNC
from terminals import Terminal

from xla_shmem import _core
from xla_shmem.hlo import xla_text
from xla_shmem.runtime.compiler_pass import _log_assignment

LONG_NAME = "collective-permute-start.12"


def _logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    module = xla_text.parse(CPU_SYNC.replace("%permute", f"%{LONG_NAME}"))
    with caplog.at_level(logging.INFO, "xla_shmem"):
        _log_assignment(module, _core.inspect_module(module))
    return caplog.messages[0].splitlines()


def test_a_log_has_each_collective_in_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    title, heads, _, *rows, empty, totals = _logged(caplog)
    assert title == "jit_step  compiled now"
    assert [line.split()[0] for line in rows] == [LONG_NAME, "small", "large"]
    assert {line.index("collective-permute ") for line in rows[:1]} == {heads.index("op ")}
    assert (empty, totals[:26]) == ("", "3 collectives in 1 module:")


def test_on_a_terminal_the_table_leaves_out_what_does_not_fit(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr", Terminal())
    lines = _logged(caplog)
    assert [line.split()[0] for line in lines[3:6]] == [LONG_NAME, "small", "large"]
    assert max(map(len, lines[1:6])) <= 80
    assert not any("\x1b" in line for line in lines)
