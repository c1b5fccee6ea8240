"""Faults that are planted in what programs call are found, and the program that shows them becomes small."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import run_job
from planted_faults import FAULTS
from program_form import Op
from program_search import Finding, Search
from random_job import SETTINGS, Shape


def ops_of(body: list[Op]) -> list[str]:
    """The ops of a body and of the loops and branches in it."""
    found = []
    for op in body:
        found.append(op["op"])
        for region in [*op.get("branches", []), *([op["region"]] if "region" in op else [])]:
            found += ops_of(region["body"])
    return found


#: Fault -> the op that shows it.
SHOWN_BY = {"pmin_of_two": "pmin", "permute_backwards": "ppermute", "gather_off_by_one_part": "all_gather"}
#: Fault -> a seed that finds it soon.
SEEDS = {"pmin_of_two": 1, "permute_backwards": 1, "gather_off_by_one_part": 1}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_found_and_made_small(fault: str, tmp_path: Path) -> None:
    shape = Shape(4, 1) if fault == "permute_backwards" else Shape(2, 1)
    with pytest.raises(Finding) as found:
        Search(shape, threads=False, several=False, fault=fault, shrink_s=40).run(SEEDS[fault], programs=400)
    assert "In a job of its own: fails too" in str(found.value)
    (program,) = found.value.programs["programs"]
    ops = ops_of(program["body"])
    assert SHOWN_BY[fault] in ops
    assert len(ops) <= 2, ops
    assert len(found.value.programs["runs"]) == 1
    # The program that a finding prints runs by itself, and is right without the fault.
    alone = tmp_path / "finding.py"
    alone.write_text(found.value.text)
    run = run_job(str(alone), ranks=shape.processes, devices=shape.devices, results=tmp_path, **SETTINGS)
    assert run.exit_code == 0, run.output
    assert run.output.count("All results of this process are right.") == shape.processes
