"""Jobs of the real CPU runtime in the simulator: many seeds, equal traces, thousands of PEs."""

from __future__ import annotations

import os

import pytest
from simulator_build import Simulator

#: How long random seeds run. `make simulate` sets it.
SECONDS = os.environ.get("SIMULATE_SECONDS", "20")

pytestmark = pytest.mark.timeout(180, func_only=True)  # the build has a limit of its own


@pytest.mark.timeout(400, func_only=True)
def test_seeds_pass(simulator: Simulator) -> None:
    run = simulator.run("--seeds", "6000")
    assert run.returncode == 0, run.stderr


#: Seeds that fail without mends that the simulator has brought about. Plans depend on drawn_plans.cc: whoever changes
#: how they are drawn looks for such seeds again (test_simulator_mutants.py has the mistakes).
FOUND = {
    2229: "a process that had been stopped gave up although all that it waited for had come",
    2283: "a receiver whose read was refused slept before it granted its slots: 100 ms lost",
    4598: "a reader of its own process took the state of mail that had just been withdrawn, and read freed memory",
}


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_has_failed_passes(simulator: Simulator, seed: int) -> None:
    run = simulator.run("--first", str(seed), "--seeds", "1")
    assert run.returncode == 0, f"again: {FOUND[seed]}\n{run.stderr}"


@pytest.mark.timeout(200, func_only=True)
def test_a_seed_always_gives_the_same_trace(simulator: Simulator) -> None:
    run = simulator.run("--seeds", "300", "--replay")
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_other_seeds_pass_for_as_long_as_asked(simulator: Simulator) -> None:
    first = int.from_bytes(os.urandom(4))
    run = simulator.run("--first", str(first), "--seconds", SECONDS)
    print(run.stdout)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.timeout(600, func_only=True)
def test_thousands_of_pes_in_one_process(simulator: Simulator) -> None:
    run = simulator.run("--pes", "4096", "--seeds", "1")
    assert run.returncode == 0, run.stderr


def test_an_unknown_option_says_what_there_is(simulator: Simulator) -> None:
    run = simulator.run("--sedes", "1")
    assert run.returncode == 2
    assert "usage: simulator" in run.stderr
