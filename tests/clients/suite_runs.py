"""Runs a suite of another project in each mode and compares the outcomes."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from client_modes import ALL_OPS, MODES, STOCK, Mode, python_ranks, run_program
from suite_outcomes import Outcomes, counted, differences, read_absl, read_junit

_PYTEST_RANK = str(Path(__file__).with_name("pytest_rank.py"))

#: In the title of the statistics that a process prints at exit if collectives of it ran on SHMEM.
STATISTICS = "(XLA_SHMEM_STATS)"

#: Runs a suite in a mode, with a folder for its output, and returns the outcomes of each rank.
SuiteRun = Callable[[Mode, Path], dict[int, Outcomes]]


def pytest_suite(
    cwd: Path, arguments: Sequence[str], *, ranks: int, timeout: float, environ: Mapping[str, str] | None = None
) -> SuiteRun:
    """A suite that pytest runs, in each of several ranks or, with one rank, in a process without a launcher."""

    def run(mode: Mode, folder: Path) -> dict[int, Outcomes]:
        rank_arguments = [_PYTEST_RANK, str(folder), *arguments]
        command = python_ranks(ranks, *rank_arguments) if ranks > 1 else [sys.executable, *rank_arguments]
        run_program(command, mode.environment(environ or {}), folder, timeout=timeout, cwd=cwd)
        return {rank: read_junit(folder / f"{rank}.xml") for rank in range(ranks)}

    return run


def jax_multiprocess_suite(file: Path, *, processes: int, devices: int, timeout: float) -> SuiteRun:
    """A file of JAX's tests/multiprocess, which starts its processes itself."""

    def run(mode: Mode, folder: Path) -> dict[int, Outcomes]:
        environ = {"JAX_NUM_CPU_DEVICES": str(devices), "TEST_UNDECLARED_OUTPUTS_DIR": str(folder)}
        # A loaded machine needs more than the 10 s that JAX's tests give a process to start.
        limits = ["--initialization_timeout=120", "--heartbeat_timeout=60", "--shutdown_timeout=60"]
        command = [sys.executable, str(file), f"--num_processes={processes}", *limits]
        run_program(command, mode.environment(environ), folder, timeout=timeout, cwd=file.parent)
        logs = [folder / f"jax_{rank}_stderr.log" for rank in range(processes)]
        return {rank: read_absl(log.read_text(errors="replace")) for rank, log in enumerate(logs) if log.exists()}

    return run


@dataclass
class Durations:
    """How long a suite ran in a mode, once for each round, in seconds.

    Attributes:
      elapsed: from start to end.
      processor: of all its processes, which other work on the machine disturbs less.
    """

    elapsed: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Adds the time of what runs inside."""
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        yield
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.elapsed.append(time.monotonic() - start)
        self.processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _print_durations(name: str, durations: Mapping[Mode, Durations]) -> None:
    stock = durations[STOCK]
    for mode, taken in durations.items():
        text = ""
        for word in ("elapsed", "processor"):
            seconds, of_stock = statistics.median(getattr(taken, word)), statistics.median(getattr(stock, word))
            text += f", {word} {seconds:.1f} s, {seconds / of_stock:.2f} of stock"
        print(f"{name}, {mode.name}: median of {len(taken.elapsed)}{text}; elapsed {taken.elapsed}")


def assert_same_outcomes(
    run: SuiteRun, folder: Path, *, moves: bool = True, may_fail: Collection[str] = frozenset()
) -> None:
    """Runs a suite in each mode. Fails if an outcome with the flag is not that of stock JAX, or if nothing passed.

    CLIENTS_ROUNDS=N runs the modes N times in turn, for better medians of the durations that are printed.

    Args:
      moves: whether the suite has collectives; if so, some must run on SHMEM with all ops. Never may any on stock JAX.
      may_fail: names of tests that pass on stock JAX and may fail with the flag, for a known reason.
    """
    durations = {mode: Durations() for mode in MODES}
    for turn in range(int(os.environ.get("CLIENTS_ROUNDS", "1"))):
        _assert_same_outcomes_once(run, folder / str(turn), durations, moves=moves, may_fail=may_fail)
    _print_durations(folder.name, durations)


def _assert_same_outcomes_once(
    run: SuiteRun, folder: Path, durations: Mapping[Mode, Durations], *, moves: bool, may_fail: Collection[str]
) -> None:
    outcomes = {}
    for mode in MODES:
        with durations[mode].measured():
            outcomes[mode] = run(mode, folder / mode.name)
    for mode, found in outcomes.items():
        moved = (folder / mode.name / "output.txt").read_text(errors="replace").count(STATISTICS)
        print(f"{folder}, {mode.name}: {counted(found)}; {moved} processes had collectives on SHMEM")
        if mode == STOCK or (moves and mode == ALL_OPS):
            assert bool(moved) == mode.flag, f"{mode.name}: collectives of {moved} processes ran on SHMEM"
    passed = sum(outcome == "passed" for tests in outcomes[STOCK].values() for outcome in tests.values())
    assert passed, f"no test passed on stock JAX; see {folder / STOCK.name / 'output.txt'}"
    differing = [f"{mode.name}: {line}" for mode in MODES[1:] for line in differences(outcomes[STOCK], outcomes[mode])]
    known = [line for line in differing if any(f"::{name}: passed on stock JAX, failed" in line for name in may_fail)]
    print(f"{folder}: known differences: {known}")
    differing = [line for line in differing if line not in known]
    assert not differing, "\n".join([f"{len(differing)} outcomes differ; outputs are in {folder}:", *differing])
