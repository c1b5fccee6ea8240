"""Faults hit a random rank of a training job at a random point (fault_runs.py). `make test-faults` runs them.

`XLA_SHMEM_FAULT_RUNS` is the number of runs, `XLA_SHMEM_FAULT_SEED` the first seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from fault_runs import FAULTS, RANKS, SAYS, STEPS, Ended, Fault, Reference, Server, check, named, run_fault

#: Runs if nothing is said.
RUNS = 24
FIRST = int(os.environ.get("XLA_SHMEM_FAULT_SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("XLA_SHMEM_FAULT_RUNS", str(RUNS))))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("faults")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_training_gives_the_same_losses_on_every_number_of_ranks(server: Server) -> None:
    alone = [float.fromhex(loss) for loss in server.reference(1).losses]
    for ranks in RANKS:
        losses = [float.fromhex(loss) for loss in server.reference(ranks).losses]
        assert len(losses) == STEPS[ranks]
        assert losses == pytest.approx(alone[: len(losses)], rel=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_ends_in_right_results_or_in_an_error_that_names_its_rank_alone(server: Server, seed: int) -> None:
    # Worlds and faults in turn, so that few runs have all of them.
    fault = Fault.draw(seed, RANKS[seed % len(RANKS)], FAULTS[seed % len(FAULTS)])
    result = run_fault(server, fault)
    print(f"XLA_SHMEM_FAULT_SEED={seed} XLA_SHMEM_FAULT_RUNS=1 repeats", result)
    assert result["problems"] == []


LATE = "all-reduce x (8 bytes, 4 PEs) on PE 1, run 4"


@pytest.mark.parametrize(
    ("error", "pes"),
    [
        (f"{LATE}; process 2 (PE 2) has exited", {2}),
        (f"{LATE}; not arrived at this operation: PE 0, 3; gave up after the deadline", {0, 3}),
        (f"process 0 gave up: {LATE}; PE 2 has sent 0 of 8 bytes; PE 3 has taken 1 of 8 bytes; here: {LATE}", {2, 3}),
        (f"process 0 gave up: {LATE}; gave up after the deadline of 4 s; here: {LATE}", set()),
    ],
)
def test_all_ranks_that_an_error_names_are_found(error: str, pes: set[int]) -> None:
    assert named(error) == pes


REFERENCE = Reference(["0x1p+0", "0x1p+1"], ["a", "b"], 1.0)
DONE = [{"loss": "0x1p+0"}, {"loss": "0x1p+1"}]
TOLD = f"; gave up after the deadline of 4 s (XLA_SHMEM_DEADLINE); process 1 (PE 1) {SAYS['stop']}"


def _ended(first: list[dict[str, str]], second: list[dict[str, str]], statuses: list[int], *problems: str) -> Ended:
    return Ended([first, second], statuses, 0.1, 1.0, list(problems), "")


@pytest.mark.parametrize(
    ("kind", "ended", "outcome", "problem"),
    [
        ("stop", _ended([DONE[0], {"error": TOLD}], DONE[:1], [256, 9]), "named", ""),
        ("stop", _ended([{"loss": "0x1p+3"}, {"error": TOLD}], DONE[:1], [256, 9]), "named", "other losses"),
        ("stop", _ended([{"error": f"x; PE 0 has sent 1 of 2 bytes{TOLD}"}], [], [256, 9]), "named", "names {0, 1}"),
        ("stop", _ended([{"error": "gone"}], [], [256, 9]), "named", "does not say that 1 is stopped"),
        ("kill", _ended([{"error": TOLD}], [], [256, 9]), "named", "does not say that 1 has exited"),
        ("stop", _ended([], [], [9, 9], "rank 0 still runs 10.0 s after"), "named", "still runs"),
        ("stop", _ended([*DONE, {"done": "a"}], [*DONE, {"done": "b"}], [0, 0]), "missed", ""),
        ("kill", _ended([*DONE, {"done": "a"}], DONE, [0, 9]), "missed", ""),
        ("kill", _ended([*DONE, {"done": "c"}], DONE, [0, 9]), "named", "does not say that 1 has exited"),
        ("pause", _ended([*DONE, {"done": "a"}], [*DONE, {"done": "b"}], [0, 0]), "right", ""),
        ("pause", _ended([*DONE, {"done": "a"}], [*DONE, {"done": "c"}], [0, 0]), "wrong", "ended with"),
        ("pause", _ended([*DONE, {"done": "a"}], [*DONE, {"done": "b"}], [0, 11]), "wrong", "ended with"),
        ("pause", _ended([{"error": TOLD}], [{"error": TOLD}], [256, 256]), "wrong", "ended with"),
        (
            "slow",
            _ended([*DONE, {"done": "a"}], [*DONE, {"done": "b"}], [0, 0], "left in /dev/shm: x"),
            "right",
            "left",
        ),
    ],
)
def test_the_checks_find_what_is_wrong(kind: str, ended: Ended, outcome: str, problem: str) -> None:
    got, problems = check(Fault(1, 2, kind, 1, 0.5), ended, REFERENCE)
    assert got == outcome
    assert problem in "\n".join(problems) if problem else not problems
