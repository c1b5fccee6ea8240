"""docs/performance.md shows what docs/data holds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
DATA = sorted((ROOT / "docs/data").glob("*.json"))
OF_ONE_HOST = [file for file in DATA if "collectives" in json.loads(file.read_text())]


@pytest.fixture(scope="module")
def performance_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("performance_table", ROOT / "tools/performance_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_data(performance_table: ModuleType) -> None:
    page = (ROOT / "docs/performance.md").read_text()
    assert performance_table.with_tables(page, ROOT / "docs/data") == page, "run: python tools/performance_table.py"
    assert all(f"<!-- table: {file.stem} -->" in page or f"(data/{file.name})" in page for file in DATA)


@pytest.mark.parametrize("file", OF_ONE_HOST, ids=lambda file: file.stem)
def test_a_ratio_is_that_of_its_times(file: Path) -> None:
    measured = json.loads(file.read_text())
    assert {"machine", "date", "software", "commands"} <= measured.keys()
    for row in measured["collectives"]:
        for name in measured["commands"]:
            run = row[name]
            for rival in ("gloo", "mpi"):
                if f"{rival}_us" in run:
                    ratio = run[f"{rival}_us"] / run["shmem_us"]
                    rounding = (_rounding(run["shmem_us"]) + _rounding(run[f"{rival}_us"])) * ratio + 0.05
                    assert ratio == pytest.approx(run[f"{rival}_ratio"], abs=rounding), (row["op"], row["bytes"])


def _rounding(microseconds: float) -> float:
    """How much of itself a time may be off by: they have a tenth of a microsecond below 100, none above."""
    return (0.05 if microseconds < 100 else 0.5) / microseconds


def test_a_page_without_marks_is_refused(performance_table: ModuleType) -> None:
    with pytest.raises(ValueError, match="marks no table"):
        performance_table.with_tables("# Performance\n", ROOT / "docs/data")
