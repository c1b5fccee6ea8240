"""The plan of a benchmark, and the check of its results. Starts no job."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from xla_shmem.bench import operands
from xla_shmem.bench.plan import DTYPES, Cell, Plan, chosen_ops, chosen_rivals, sizes
from xla_shmem.errors import BenchError
from xla_shmem.options.values import OPS


def _cell(op: str, count: int = 12, group: int = 4, dtype: str = "f32", reduction: str = "") -> Cell:
    return Cell(op, count, dtype, reduction or ("sum" if "reduce" in op else ""), group, in_place=False)


def test_sizes_grow_by_the_factor_up_to_the_last() -> None:
    assert list(sizes(8, 128, 4)) == [8, 32, 128]
    assert list(sizes(8, 127, 4)) == [8, 32]


def test_the_size_is_that_of_the_larger_buffer_of_a_pe() -> None:
    plan = Plan(processes=4, ops=OPS, min_bytes=1024, max_bytes=1024)
    found = {cell.op: (cell.count, cell.operand_elements, cell.result_elements, cell.bytes) for cell in plan.cells()}
    assert found == {
        "collective-permute": (256, 256, 256, 1024),
        "all-reduce": (256, 256, 256, 1024),
        "collective-broadcast": (256, 256, 256, 1024),
        "all-gather": (64, 64, 256, 1024),
        "reduce-scatter": (64, 256, 64, 1024),
        "all-to-all": (64, 256, 256, 1024),
        "ragged-all-to-all": (64, 256, 256, 1024),
    }


def test_sizes_are_rounded_down_to_whole_elements_without_empty_or_repeated_ones() -> None:
    plan = Plan(processes=4, ops=("all-gather",), min_bytes=8, max_bytes=64, factor=2)
    assert [cell.bytes for cell in plan.cells()] == [16, 32, 64]
    plan = dataclasses.replace(plan, processes=3, min_bytes=12, max_bytes=24)
    assert [cell.bytes for cell in plan.cells()] == [12, 24]


def test_misalign_lengthens_every_piece() -> None:
    plan = Plan(processes=2, ops=("collective-permute", "all-to-all"), min_bytes=64, max_bytes=64, misalign=4)
    assert [cell.bytes for cell in plan.cells()] == [64 + 4, 64 + 2 * 4]


# nccl-tests, doc/PERFORMANCE.md, for 4 ranks.
@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all-reduce", 1.5),
        ("all-gather", 0.75),
        ("reduce-scatter", 0.75),
        ("all-to-all", 0.75),
        ("collective-broadcast", 1.0),
        ("collective-permute", 1.0),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(op: str, factor: float) -> None:
    assert _cell(op).bus_factor == factor


@pytest.mark.parametrize(
    ("op", "single", "slots"),
    [
        ("collective-permute", 1.0, 2.0),
        ("collective-broadcast", 1.0, 2.0),
        ("all-gather", 1.0, 1.75),
        ("all-to-all", 1.0, 1.75),
        ("reduce-scatter", 0.75, 1.5),
        ("all-reduce", 1.5, 3.0),
    ],
)
def test_remote_bytes_are_copied_once_or_twice_and_local_bytes_once(op: str, single: float, slots: float) -> None:
    assert _cell(op).copies == (single, slots)


def test_each_operation_is_listed_once_and_all_selects_every_one() -> None:
    assert chosen_ops(["collective-broadcast", "collective-permute", "collective-permute"]) == (
        "collective-permute",
        "collective-broadcast",
    )
    assert chosen_ops(["collective-permute", "all"]) == OPS


def test_a_plan_says_how_many_processes_and_devices() -> None:
    assert str(Plan(processes=1, devices_per_process=8)).startswith("one process with 8 devices, groups of 8, f32")
    assert str(Plan(processes=2, devices_per_process=4)).startswith("2 processes with 4 devices each, groups of 8")


def test_rivals_are_read_in_any_order_and_none_selects_no_rival() -> None:
    assert chosen_rivals(["mpi, stock"], "cpu") == ("stock", "mpi")
    assert chosen_rivals(["none"], "gpu") == ()
    assert chosen_rivals(["XLA_SHMEM_STATS=1,nccl-fast"], "gpu") == ("nccl-fast", "XLA_SHMEM_STATS=1")
    settings = ["XLA_SHMEM_SPIN_US=0", "stock", "XLA_SHMEM_SPIN_US=5,XLA_SHMEM_SPIN_US=0"]
    assert chosen_rivals(settings, "cpu") == ("stock", "XLA_SHMEM_SPIN_US=0", "XLA_SHMEM_SPIN_US=5")
    with pytest.raises(BenchError, match=r"'nccl-fast' is neither one of stock, mpi \(on CPUs\) nor"):
        chosen_rivals(["stock,nccl-fast"], "cpu")
    with pytest.raises(BenchError, match="did you mean XLA_SHMEM_SPIN_US"):
        chosen_rivals(["XLA_SHMEM_SPIN_UZ=5"], "cpu")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"processes": 1}, "no other to send to"),
        ({"group": 3}, "--groups 3 does not divide 2 PEs"),
        ({"min_bytes": 16, "max_bytes": 8}, "--min-bytes 16 is more than --max-bytes 8"),
        ({"misalign": 3}, "--misalign 3 is not a multiple of the 4 bytes of f32"),
        ({"bind": True, "processes": 10_000}, "--bind: 10000 ranks cannot have processors of their own"),
        ({"rivals": ("mpi",), "devices_per_process": 2}, "one device per process"),
        ({"launcher": "no-such-command -n 2"}, "--launcher no-such-command -n 2: there is no command no-such-command"),
        ({"launcher": "env 'A"}, "--launcher env 'A: No closing quotation"),
        ({"launcher": "env", "rivals": ("mpi",)}, "--vs mpi is for ranks of this host"),
        ({"launcher": "env", "bind": True}, "--bind is for ranks of this host"),
        ({"ops": ("reduce-scatter",), "reduction": "max"}, "no reduce-scatter with --reduction max, only sum"),
        ({"ops": ("all-gather",), "in_place": True}, "all-gather cannot run in place"),
        ({"min_bytes": 1, "max_bytes": 3}, "no size from --min-bytes 1 to --max-bytes 3"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_in_one_sentence(wrong: dict[str, object], words: str) -> None:
    plan = dataclasses.replace(Plan(), **wrong)  # type: ignore[arg-type]
    with pytest.raises(BenchError, match=words):
        plan.validate()


def test_expected_results_follow_from_the_operands_of_the_group() -> None:
    first = [operands.operand(_cell("collective-permute"), pe) for pe in range(8)]
    np.testing.assert_array_equal(operands.expected(_cell("collective-permute"), 4), first[7])
    np.testing.assert_array_equal(operands.expected(_cell("collective-permute"), 6), first[5])
    np.testing.assert_array_equal(operands.expected(_cell("collective-broadcast"), 6), first[4])
    np.testing.assert_array_equal(operands.expected(_cell("all-gather"), 6), np.concatenate(first[4:]))
    np.testing.assert_array_equal(operands.expected(_cell("all-reduce"), 6), np.sum(first[4:], axis=0))
    np.testing.assert_array_equal(operands.expected(_cell("all-reduce", reduction="max"), 1), np.max(first[:4], axis=0))
    long = [operands.operand(_cell("all-to-all"), pe) for pe in range(8)]
    np.testing.assert_array_equal(
        operands.expected(_cell("all-to-all"), 5), np.concatenate([x[12:24] for x in long[4:]])
    )
    np.testing.assert_array_equal(operands.expected(_cell("reduce-scatter"), 6), np.sum(long[4:], axis=0)[24:36])


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_exact_in_every_type_and_order(dtype: str) -> None:
    cell = _cell("all-reduce", count=1000, group=8, dtype=dtype)
    terms = [operands.operand(cell, pe) for pe in range(8)]
    forwards, backwards = terms[0], terms[-1]
    for up, down in zip(terms[1:], terms[-2::-1], strict=True):
        forwards, backwards = forwards + up, backwards + down
    assert len(np.unique(terms[0])) > 20
    for total in (forwards, backwards):
        assert operands.wrong_elements(total, operands.expected(cell, 3)) == 0


def test_no_operand_holds_the_value_of_an_unwritten_result() -> None:
    cell = _cell("collective-permute", count=100_000, dtype="s8")
    assert not np.isin(operands.operand(cell, 0), operands.unwritten(cell)).any()


def test_wrong_elements_are_counted_bit_by_bit() -> None:
    wanted = np.array([0.0, 1.0, np.nan, 3.0], np.float32)
    assert operands.wrong_elements(wanted.copy(), wanted) == 0
    assert operands.wrong_elements(np.array([-0.0, 1.0, np.nan, 4.0], np.float32), wanted) == 2
    assert operands.wrong_elements(wanted[:3], wanted) == 4
    assert operands.wrong_elements(wanted.astype(np.float64), wanted) == 4
