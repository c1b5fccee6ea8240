"""XLA:GPU takes the ways that the pass chooses, and nothing that a caller owns lies in collective memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from compiler_runs import FLAG, HERE, WHEELS, Compiler
from executable_thunks import CollectiveThunk, collective_thunks
from fused_programs import release_fuses
from gathering_programs import PROGRAMS

from gpu_compile.environment import compile_environment
from xla_shmem.gpu_ways import settable
from xla_shmem.inspect.modules import read_inspected

pytestmark = pytest.mark.skipif(not settable("gpu"), reason="the pass chooses no way of this release")

GATHERS = [name for name in PROGRAMS if not name.startswith("reduced")]
REDUCES = [name for name in PROGRAMS if name.startswith("reduced")]
_COLLECTIVE_COLORS = ("1", "7")


@dataclass
class Compiled:
    """What became of each program.

    Attributes:
      folder: XLA's dumps.
      records: what the pass recorded.
    """

    folder: Path
    records: dict[str, list[dict[str, Any]]]

    def thunks(self, program: str) -> list[CollectiveThunk]:
        return collective_thunks((self.folder / f"{program}.executable").read_bytes())

    def allocations(self, program: str) -> list[str]:
        (file,) = self.folder.glob(f"module_*.jit_{program}.*after_optimizations-buffer-assignment.txt")
        return re.findall(r"^allocation .*$", file.read_text(), re.MULTILINE)

    def ways(self, program: str) -> list[tuple[str, str]]:
        (module,) = [
            module
            for module in read_inspected(str(self.folder), lambda record: True)
            if module.input.name == f"jit_{program}"
        ]
        return [(record["op"], record["way"]) for record in module.records]


def _compile(folder: Path, ways: Mapping[str, str]) -> Compiled:
    """Compiles all with a table by which these ways are the fastest, by op."""
    dumps = [f"--xla_dump_to={folder}", "--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"]
    subprocess.run(
        [sys.executable, str(HERE / "worker_chosen_ways.py"), str(folder), json.dumps(ways)],
        env=compile_environment(WHEELS, [FLAG, *dumps]),
        check=True,
        timeout=350,
    )
    return Compiled(folder, json.loads((folder / "records.json").read_text()))


@pytest.fixture(scope="module")
def compiled(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return _compile(tmp_path_factory.mktemp("chosen"), {"all-gather": "one-sided", "all-reduce": "nccl"})


@pytest.mark.parametrize("program", GATHERS)
def test_all_gathers_are_one_sided(compiled: Compiled, program: str) -> None:
    records = compiled.records[program]
    assert {(one["rule"], one["chosen_way"]) for one in records} == {("tuned", "one-sided")}
    assert {(thunk.op, thunk.mode, thunk.space > 0) for thunk in compiled.thunks(program)} == {
        ("all-gather", "symmetric", True)
    }
    assert compiled.ways(program) == [("all-gather", "one-sided")] * len(records)


@pytest.mark.parametrize("program", GATHERS)
def test_no_parameter_or_result_lies_in_collective_memory(compiled: Compiled, program: str) -> None:
    colors = {
        allocation: found[1] if (found := re.search(r"color (\d+)", allocation)) else "0"
        for allocation in compiled.allocations(program)
    }
    symmetric = [allocation for allocation, color in colors.items() if color in _COLLECTIVE_COLORS]
    assert symmetric
    assert [one for one in symmetric if "parameter" in one or "maybe-live-out" in one] == []


@pytest.mark.parametrize("program", REDUCES)
def test_small_sums_go_back_to_nccl_where_xla_has_fused_them(compiled: Compiled, program: str) -> None:
    assert [(thunk.op, thunk.space) for thunk in compiled.thunks(program)] == [("all-reduce", 0)]
    assert compiled.ways(program) == [("all-reduce", "NCCL")]
    (record,) = compiled.records[program]
    assert record["chosen_way"] == ("NCCL" if release_fuses() else None)
