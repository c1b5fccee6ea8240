"""Programs that differ between ranks: the value of stock JAX where it gives the right one, else an error at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from job_runs import JobRun, run_job

pytestmark = pytest.mark.timeout(180)


def _run(tmp_path: Path, way: str, ranks: int = 2, devices: int = 1, flag: bool = True) -> JobRun:
    # Nothing but the comparison of programs ends a wait.
    return run_job(
        "worker_differing.py",
        [way],
        ranks=ranks,
        devices=devices,
        results=tmp_path / str(flag),
        timeout=80,
        flag=flag,
        XLA_SHMEM_DEADLINE="inf",
        XLA_SHMEM_OPS="all-reduce,collective-permute,all-gather,reduce-scatter,all-to-all",
    )


def _values(tmp_path: Path, way: str, ranks: int = 2, devices: int = 1) -> list[list[list[float]]]:
    runs = [_run(tmp_path, way, ranks, devices, flag) for flag in (True, False)]
    ours, stock = ([run.result(rank) for rank in range(ranks)] for run in runs)
    assert [run.exit_code for run in runs] == [0, 0], runs[0].output
    assert ours == stock
    return [of_rank["values"] for of_rank in ours]  # type: ignore[misc]


def _errors(tmp_path: Path, way: str, ranks: int = 2, fields: dict[str, object] | None = None) -> list[str]:
    run = _run(tmp_path, way, ranks)
    assert run.segments == []
    facts = [run.result(rank) for rank in range(ranks)]
    for of_rank in facts:
        assert "error" in of_rank, of_rank
        assert of_rank.items() >= (fields or {}).items()
        # The ranks meet after both have compiled.
        assert float(str(of_rank["seconds"])) < 10
    return [str(of_rank["error"]) for of_rank in facts]


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_constant_that_differs_gives_the_value_of_stock_jax(tmp_path: Path, ranks: int) -> None:
    total = float(sum((i + 1) ** 2 for i in range(ranks)))
    assert _values(tmp_path, "constant_in_a_sum", ranks) == [[[total, total]]] * ranks


@pytest.mark.parametrize(("ranks", "devices"), [(2, 1), (4, 1), (2, 2)])
def test_all_ops_give_the_bits_of_stock_jax(tmp_path: Path, ranks: int, devices: int) -> None:
    runs = [_run(tmp_path, "constants_in_all_ops", ranks, devices, flag) for flag in (True, False)]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].output
    for rank in range(ranks):
        ours, stock = (run.result(rank)["digests"] for run in runs)
        assert ours == stock


def test_an_all_to_all_that_moves_behind_another_collective_on_one_rank_is_an_error(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "all_to_all_behind_another_collective"):
        assert re.search(r"its copy differs: collective \d of process \d is \S+ jit_step/", error), error


def test_a_rank_whose_copy_never_waits_is_found(tmp_path: Path) -> None:
    gives, all_sums = [[0.0, 0.0], [1.0, 1.0]], [3.0, 3.0]
    assert _values(tmp_path, "one_way") == [[gives[rank]] * 5 + [all_sums] + [gives[rank]] for rank in (0, 1)]


def test_functions_of_one_line_meet_in_the_order_in_which_they_run(tmp_path: Path) -> None:
    assert _values(tmp_path, "functions_of_one_line") == [[[c * 5.0] * 2 for c in (1, 3, 7)] * 2] * 2


def test_a_program_that_is_made_again_with_another_constant_has_its_own_copies(tmp_path: Path) -> None:
    assert _values(tmp_path, "made_again_with_another_constant") == [[[c * 5.0] * 2 for c in (1, 1, 3, 3)]] * 2


@pytest.mark.parametrize(("ranks", "devices"), [(2, 1), (2, 2)])
def test_two_bodies_with_equal_collectives_in_flight_keep_their_data(tmp_path: Path, ranks: int, devices: int) -> None:
    n = ranks * devices
    total, squares = n * (n + 1) / 2, sum((i + 1) ** 2 for i in range(n))
    plus, minus = [total + squares + n] * 2, [-total + squares - n] * 2
    for values in _values(tmp_path, "bodies_of_one_name", ranks, devices):
        assert values == [plus, minus, plus] * 40


def test_other_shapes_are_named_with_both_ranks_and_source_lines(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "shapes"):
        assert "of another program of that name: its copy differs: collective 1 of process" in error
        for rank in (0, 1):
            assert re.search(
                rf"process {rank} (is )?all-reduce jit_\S+ \(sum f32\[1,{8 + rank}\]\) at \S*worker_differing.py:\d+",
                error,
            ), error


@pytest.mark.parametrize("way", ["permutes_in_branches_of_python", "permutes_in_branches_of_a_constant"])
def test_permutes_that_differ_are_named_with_their_pairs(tmp_path: Path, way: str) -> None:
    for error in _errors(tmp_path, way, ranks=3):
        assert "its copy differs: collective 1 of process" in error
        assert "collective-permute jit_" in error
        assert "pairs [[0,1],[1,2],[2,0]]) at " in error
        assert re.search(r"pairs \[\[(0,2|1,0|2,1)\],", error), error
        assert len(set(re.findall(r"worker_differing.py:\d+", error))) >= (1 if "python" in way else 2), error


def test_permutes_in_two_branches_of_one_program_are_named(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "permutes_in_branches_of_the_axis", ranks=3):
        assert "has taken another branch of a conditional, with collective-permute jit_" in error
        assert len(set(re.findall(r"worker_differing.py:\d+", error))) == 2, error
        assert "all members of a collective must take the same branch" in error


def test_sums_of_one_size_in_the_order_of_a_set_are_an_error_and_no_value(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "sums_of_a_set"):
        assert re.search(r"its copy differs: what goes to operand 1 of collective 1", error)
        assert re.search(r"worker_differing.py:\d+, in process \d goes to operand 2 of collective 1, all-reduce", error)


def test_sums_of_other_sizes_in_the_order_of_a_set_are_named(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "sums_of_a_set_of_sizes"):
        assert "(f32[1,10], f32[1,20])) at " in error
        assert "(f32[1,20], f32[1,10])) at " in error


def test_functions_of_one_line_that_share_a_program_are_an_error(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "functions_of_one_line_that_share_a_program"):
        assert re.search(r"two functions named jit__lambda\S* in different orders|loaded several of that name", error)


def test_functions_of_two_lines_in_other_order_never_exchange_data(tmp_path: Path) -> None:
    errors = _errors(tmp_path, "functions_of_two_lines_in_other_order", fields={"call": 0})
    for error in errors:
        lines = re.findall(r"\(sum f32\[1,10\][^)]*\) at \S*worker_differing.py:(\d+)", error)
        assert len(set(lines)) == 2, error


def test_functions_of_one_line_in_other_order_end_the_job(tmp_path: Path) -> None:
    # What tells them from copies of one function is only that a rank loads both: the results of the first are wrong.
    for error in _errors(tmp_path, "functions_of_one_line_in_other_order"):
        assert "run two functions named jit__lambda" in error
        assert "in different orders, and have taken one for a copy of the other" in error


def test_copies_are_not_paired_where_several_threads_load_programs(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "two_threads"):
        assert re.search(r"several threads of process \d load programs", error), error


def test_a_collective_that_one_rank_has_not_is_named(tmp_path: Path) -> None:
    for error in _errors(tmp_path, "one_collective_more"):
        assert "collective 2 of process" in error
        assert "none that xla-shmem carries" in error
        assert "all-reduce jit_" in error
        assert "(max f32[1,10]) at " in error


def test_programs_of_disjoint_ranks_may_differ_and_may_be_late(tmp_path: Path) -> None:
    values = _values(tmp_path, "subsets_with_programs_of_their_own", ranks=4)
    total = 1.0 + 2 + 2 * 3 + 2 * 4
    for rank in range(4):
        assert values[rank] == [[2.0, 2.0] if rank < 2 else [12.0, 12.0], [total, total]]


def test_a_rank_in_an_earlier_program_or_that_compiles_is_waited_for(tmp_path: Path) -> None:
    values = _values(tmp_path, "programs_ahead_and_late")
    assert [of_rank[1:] for of_rank in values] == [[[3.0, 3.0]] * 4] * 2
