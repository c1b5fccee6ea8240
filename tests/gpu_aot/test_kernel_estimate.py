"""The estimates of the GPU path's kernels: what they count is what the compilers and the launches say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compiler_runs import Compiler

from xla_shmem import _core

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from kernel_account import account, find_ptxas
from kernel_estimate import DOMAINS, EXCHANGE_US, GB200, H100, IN_SWITCH, OPS, SIZES, Gpu, estimate, main, table

ROOT = Path(__file__).parents[2]


def test_the_docs_have_the_table() -> None:
    assert "\n".join(table()) in (ROOT / "docs/gpu.md").read_text()


def test_fences_are_those_of_the_compiler(compiler: Compiler) -> None:
    fences = {row.kernel: row.fences for row in account(90, find_ptxas())}
    for members, gpu in DOMAINS:
        for op in OPS:
            for size in SIZES:
                row = estimate(op, size, members, gpu)
                kernel = "reduce" if op in ("all-reduce", "reduce-scatter") else "move"
                # `reduce` has two places that post: the second one is that of a second shot.
                posts = fences[kernel] if row.form == "two-shot" else 1
                assert row.fences == (fences[f"{kernel}_packets"] if row.form == "packets" else posts)


def test_large_messages_fill_the_link_while_a_signal_travels() -> None:
    for members, gpu in DOMAINS:
        for op in OPS:
            row = estimate(op, 1 << 28, members, gpu)
            assert row.blocks == 32
            assert row.in_flight > gpu.link_gb_per_s * 1e3 * EXCHANGE_US


@pytest.mark.parametrize("op", OPS)
def test_latency_does_not_grow_with_the_members_of_an_nvl72_domain(op: str) -> None:
    few, many = estimate(op, 1 << 10, 8, H100), estimate(op, 1 << 10, 72, GB200)
    assert many.steps <= 9  # of 71 peers
    assert many.us < 3 * few.us


@pytest.mark.parametrize(("members", "most_mib"), [(8, 84), (72, 162)])
def test_memory_does_not_grow_as_the_members_do(members: int, most_mib: int) -> None:
    assert _core.kernel_form("all-gather", 1 << 20, members)["memory_bytes"] <= most_mib << 20


def test_small_messages_need_two_accesses_and_no_fence() -> None:
    row = estimate("all-reduce", 1 << 10, 8, H100)
    assert (row.form, row.turns, row.accesses, row.fences) == ("packets", 1, 2, 0)


@pytest.mark.parametrize(("members", "gpu"), [(4, H100), *DOMAINS])
def test_the_switch_gathers_where_that_is_hardly_slower(members: int, gpu: Gpu) -> None:
    forms = set()
    for power in range(10, 29):
        without = estimate("all-gather", 1 << power, members, gpu)
        row = estimate("all-gather", 1 << power, members, gpu, multimem=True)
        forms.add(row.form)
        assert row.us < 1.11 * without.us  # of four, between 1 and 4 MiB
        assert (row.form == "switch") == (without.form != "packets")
    assert row.us < 1.02 * without.us
    assert forms == {"packets", "switch"}
    assert estimate("all-gather", 1 << 28, 3, H100, multimem=True).form == "slots"


@pytest.mark.parametrize("power", range(18, 29))
def test_all_reduces_of_eight_gpus_are_faster_in_the_switch_than_in_two_shots(power: int) -> None:
    row = estimate("all-reduce", 1 << power, 8, H100, multimem=True)
    assert (row.form, row.fences) == ("switch", 2)
    assert row.us < estimate("all-reduce", 1 << power, 8, H100).us


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown op"):
        _core.kernel_form("all-sum", 16, 8)
    with pytest.raises(ValueError, match="fewer than two members"):
        _core.kernel_form("all-reduce", 16, 1)


def test_all_rows_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(DOMAINS) * len(OPS) * len(SIZES)
    assert len({len(line) for line in lines}) == 1
    assert main(["--multimem"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("switch" in line for line in lines) > len(DOMAINS) * len(IN_SWITCH)
