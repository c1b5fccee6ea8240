"""The times that a rank of the benchmark reports."""

from __future__ import annotations

from typing import cast

import pytest

from xla_shmem.bench import worker


class _Program:
    """Takes 7 s to start, 100 s more if there is any collective, and 2 s for each."""

    def __init__(self, turns_per_call: int = 1) -> None:
        self.now = 0.0
        self.turns: list[int] = []
        self._turns_per_call = turns_per_call

    def run(self, turns: int) -> int:
        turns = -(-turns // self._turns_per_call) * self._turns_per_call
        self.turns.append(turns)
        self.now += 7 + (100 if turns else 0) + 2 * turns
        return turns


def _time(monkeypatch: pytest.MonkeyPatch, warmup: int, turns_per_call: int = 1) -> tuple[_Program, list[float]]:
    program = _Program(turns_per_call)
    rank = worker._Rank()
    rank._programs["shmem"] = program
    monkeypatch.setattr(worker.time, "perf_counter", lambda: program.now)
    return program, cast("list[float]", rank.time("shmem", warmup=warmup, turns=10, runs=2)["us"])


def test_times_leave_out_the_fixed_cost_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program, us = _time(monkeypatch, warmup=5)
    assert us == pytest.approx([2e6, 2e6])
    assert program.turns == [5, 15, 5, 15]


def test_without_warm_up_the_first_collective_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, us = _time(monkeypatch, warmup=0)
    assert us == pytest.approx([12e6, 12e6])


def test_programs_with_a_fixed_number_of_turns_count_what_they_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    program, us = _time(monkeypatch, warmup=5, turns_per_call=4)
    assert us == pytest.approx([2e6, 2e6])
    assert program.turns == [8, 16, 8, 16]
