"""The flags of XLA that a tuning table chooses, and what it must not choose."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from xla_shmem import _core, gpu_ways, options
from xla_shmem.options.tuning_table import Measured, Table, TunedRow
from xla_shmem.runtime import gpu_flags

EVERY = [word for word, _ in _core.ways()]
NEW_NCCL = (2, 31, 2)


def _times(us: float) -> Measured:
    return Measured(us, us, us, 9)


def _row(op: str, size: int, default: float, **ways: float) -> TunedRow:
    named = {name.replace("_", "-"): _times(us) for name, us in ways.items()}
    return TunedRow(op, "f32", 4, size, _times(99), _times(default), 1, named)


def _table(*rows: TunedRow) -> Table:
    return Table("gpu", {}, {}, rows)


def _chosen(
    *rows: TunedRow, processes: int = 1, nccl: tuple[int, ...] = NEW_NCCL, backends: list[str] = EVERY
) -> list[tuple[str, str]]:
    return [(one.flag, one.refused) for one in gpu_flags.choose(_table(*rows), backends, processes, nccl)]


def test_the_fastest_way_over_all_sizes_becomes_the_flag_of_its_op() -> None:
    permutes = [
        _row("collective-permute", 1024, 10, one_sided=9, peer_copies=20),
        _row("collective-permute", 4096, 20, one_sided=19, peer_copies=19),
    ]
    assert _chosen(*permutes) == [("--xla_gpu_collective_permute_mode=symmetric", "")]
    exchanges = _row("all-to-all", 4096, 10, peer_copies=5)
    assert _chosen(exchanges) == [("--xla_gpu_use_memcpy_local_p2p=true", "")]
    assert _chosen(exchanges, backends=["nvshmem", "one-sided"]) == []


def test_a_way_that_gains_less_than_five_percent_is_not_chosen() -> None:
    assert _chosen(_row("all-to-all", 4096, 100, peer_copies=95)) == []
    assert len(_chosen(_row("all-to-all", 4096, 100, peer_copies=94.9))) == 1


def test_what_the_pass_chooses_for_each_collective_needs_no_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_ways, "settable", lambda platform: ("one-sided",))
    assert _chosen(_row("all-gather", 4096, 10, one_sided=1)) == []
    monkeypatch.setattr(gpu_ways, "settable", lambda platform: ())
    assert _chosen(_row("all-gather", 4096, 10, one_sided=1)) == [("--xla_gpu_all_gather_mode=symmetric", "")]


def test_the_pass_chooses_no_way_of_xla_on_cpus() -> None:
    assert gpu_ways.settable("cpu") == ()


def test_windows_have_the_largest_size_at_which_they_are_faster() -> None:
    rows = [_row("all-reduce", size, 10, nccl_symmetric=us) for size, us in ((64, 5), (1024, 6), (65536, 12))]
    flag = "--xla_enable_nccl_symmetric_buffers_for_collectives=AllReduce"
    assert _chosen(*rows) == [(f"{flag}:1024", "")]
    assert _chosen(*rows[:2]) == [(flag, "")]
    assert _chosen(rows[2]) == []


@pytest.mark.parametrize(
    ("row", "processes", "nccl", "why"),
    [
        (_row("collective-permute", 64, 10, one_sided=1), 2, NEW_NCCL, "openxla/xla issue 45406"),
        (_row("collective-permute", 64, 10, one_sided=1), 2, NEW_NCCL, "NVIDIA/nccl issue 2198"),
        (_row("all-reduce", 64, 10, nccl_symmetric=1), 2, NEW_NCCL, "openxla/xla issue 45406"),
        (_row("all-reduce", 64, 10, nccl_symmetric=1), 1, (2, 30, 7), "NVIDIA/nccl issue 2331"),
        (_row("all-gather", 64, 10, nccl_symmetric=1), 1, (2, 30, 7), "groups of two (issue 2241)"),
        (_row("all-to-all", 64, 10, nccl_symmetric=1), 1, (), "NCCL of an unknown release"),
        (_row("all-to-all", 64, 10, peer_copies=1), 2, NEW_NCCL, "within a process only"),
    ],
)
def test_a_way_that_may_hang_or_lose_data_is_refused_with_the_issue(
    row: TunedRow, processes: int, nccl: tuple[int, ...], why: str
) -> None:
    ((_, refused),) = _chosen(row, processes=processes, nccl=nccl)
    assert why in refused


def test_a_refused_way_gives_way_to_one_that_can_be_set() -> None:
    row = _row("collective-permute", 64, 10, one_sided=1, nccl_symmetric=2, peer_copies=5)
    assert _chosen(row, nccl=(2, 27)) == [("--xla_gpu_collective_permute_mode=symmetric", "")]
    row = _row("all-to-all", 64, 10, nccl_symmetric=2, peer_copies=5)
    assert _chosen(row, nccl=(2, 27)) == [("--xla_gpu_use_memcpy_local_p2p=true", "")]


def _options(table: Table, **other: Any) -> options.Options:
    return dataclasses.replace(options.resolve({}, {}), profile="tuned", tuning=table, **other)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    names = {"xla_gpu_use_memcpy_local_p2p", "xla_gpu_collective_permute_mode"}
    monkeypatch.setattr(gpu_flags, "known_flags", lambda asked: names & set(asked))
    return names


def test_flags_are_added_to_the_users_and_said_and_the_pass_compares_with_their_times(
    known: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = _table(_row("all-to-all", 4096, 10, peer_copies=5), _row("collective-permute", 64, 10))
    environ = {"XLA_FLAGS": "--xla_a=1"}
    with caplog.at_level(logging.WARNING, "xla_shmem"):
        found = gpu_flags.set_flags(_options(table), 1, environ, says=True)
    assert environ["XLA_FLAGS"] == "--xla_a=1 --xla_gpu_use_memcpy_local_p2p=true"
    assert found.tuning is not None
    assert [row.default for row in found.tuning.rows] == [_times(5), _times(10)]
    (said,) = caplog.messages
    assert said == (
        "xla_shmem: all-to-all: peer-copies takes 0.50 of the time of XLA's choice, so "
        "--xla_gpu_use_memcpy_local_p2p=true is set"
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("--xla_gpu_use_memcpy_local_p2p=false", "XLA_FLAGS has it already"),
        ("flags.txt", "XLA_FLAGS is the name of a file"),
    ],
)
def test_the_users_flags_stay(known: set[str], caplog: pytest.LogCaptureFixture, given: str, why: str) -> None:
    environ = {"XLA_FLAGS": given}
    options_in_force = _options(_table(_row("all-to-all", 4096, 10, peer_copies=5)))
    with caplog.at_level(logging.WARNING, "xla_shmem"):
        assert gpu_flags.set_flags(options_in_force, 1, environ, says=True) == options_in_force
    assert environ == {"XLA_FLAGS": given}
    assert why in caplog.text


def test_a_flag_that_xla_does_not_know_is_not_set(known: set[str]) -> None:
    known.clear()
    environ: dict[str, str] = {}
    gpu_flags.set_flags(_options(_table(_row("all-to-all", 4096, 10, peer_copies=5))), 1, environ, says=False)
    assert environ == {}


RAGGED_BY_NCCL = _core.way_flags("nccl", "ragged-all-to-all")


def test_what_a_flag_needs_is_set_with_it_where_xla_knows_it(known: set[str], caplog: pytest.LogCaptureFixture) -> None:
    first, needed = RAGGED_BY_NCCL
    table = _table(_row("ragged-all-to-all", 4096, 10, nccl=5))
    known.add(first[2:].partition("=")[0])
    older: dict[str, str] = {}
    gpu_flags.set_flags(_options(table), 1, older, says=False)
    assert older == {"XLA_FLAGS": first}
    known.add(needed[2:].partition("=")[0])
    newer: dict[str, str] = {}
    with caplog.at_level(logging.WARNING, "xla_shmem"):
        gpu_flags.set_flags(_options(table), 1, newer, says=True)
    assert newer == {"XLA_FLAGS": f"{first} {needed}"}
    assert f"so {first} and {needed} are set" in caplog.text


def test_a_flag_is_not_set_where_the_user_has_set_what_it_needs(
    known: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    names = [flag[2:].partition("=")[0] for flag in RAGGED_BY_NCCL]
    known.update(names)
    environ = {"XLA_FLAGS": f"--{names[1]}=false"}
    with caplog.at_level(logging.WARNING, "xla_shmem"):
        gpu_flags.set_flags(_options(_table(_row("ragged-all-to-all", 4096, 10, nccl=5))), 1, environ, says=True)
    assert environ == {"XLA_FLAGS": f"--{names[1]}=false"}
    assert f"XLA_FLAGS has --{names[1]}, which it needs, already" in caplog.text


def test_other_profiles_and_platforms_set_nothing() -> None:
    environ: dict[str, str] = {}
    rows = (_row("all-to-all", 4096, 10, peer_copies=5),)
    for one in (options.resolve({}, {}), _options(Table("cpu", {}, {}, rows))):
        assert gpu_flags.set_flags(one, 1, environ, says=True) is one
    assert environ == {}
