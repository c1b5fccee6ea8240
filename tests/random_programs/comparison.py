"""Compares what a job computed for random programs with what NumPy computes. A finding that runs alone uses it too."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy_results import results_of
from program_form import ProgramSet


def wrong_results(programs: ProgramSet, answers: list[Any]) -> list[str]:
    """What differs from NumPy in the answers of all processes: a line for each result of a device."""
    wrong = []
    for number, (index, _) in enumerate(programs["runs"]):
        program = programs["programs"][index]
        devices = sorted(device for answer in answers if answer[number] for device in answer[number][0])
        if devices != list(range(len(program["order"]))):
            wrong.append(f"run {number} of program {index} has results of the devices {devices} only")
    expected = expected_results(programs)
    for rank, answer in enumerate(answers):
        wrong += [f"process {rank}: {line}" for line in wrong_blocks(programs, answer, expected)]
    return wrong


def expected_results(programs: ProgramSet) -> list[list[np.ndarray]]:
    """NumPy's results of each run."""
    with np.errstate(all="ignore"):
        return [results_of(programs["programs"][index], seed) for index, seed in programs["runs"]]


def wrong_blocks(programs: ProgramSet, answer: Any, expected: list[list[np.ndarray]] | None = None) -> list[str]:
    """What differs from NumPy in the answer of one process: a line for each result of a device."""
    wrong = []
    for number, (index, seed) in enumerate(programs["runs"]):
        if answer[number] is None:
            continue
        values = programs["programs"][index]["results"]
        wanted = (expected or expected_results(programs))[number]
        for value, blocks, want in zip(values, answer[number], wanted, strict=True):
            for device, got in blocks.items():
                if found := _difference(got, want[device]):
                    where = f"program {index}, run {number} with inputs {seed}, v{value} on device {device}"
                    wrong.append(f"{where}: {found}")
    return wrong


def _difference(got: np.ndarray, want: np.ndarray) -> str:
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    # +0 and -0 are equal.
    unequal = np.argwhere(~np.atleast_1d(got == want))
    if not len(unequal):
        return ""
    at = tuple(int(i) for i in unequal[0][: got.ndim])
    return f"element {list(at)} is {got[at]}, expected {want[at]} ({len(unequal)} of {got.size} are wrong)"
