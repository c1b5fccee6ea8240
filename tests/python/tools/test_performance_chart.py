"""The charts of docs/performance.md show what docs/data holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import performance_chart

ROOT = Path(__file__).parents[3]
DATA = sorted((ROOT / "docs/data").glob("*.json"))
OF_ONE_HOST = [file for file in DATA if "collectives" in json.loads(file.read_text())]


def test_the_pictures_are_those_of_the_data() -> None:
    for name, picture in performance_chart.charts(ROOT / "docs/data").items():
        assert (ROOT / "docs/pictures" / name).read_text() == picture, "run: python tools/performance_chart.py"


def test_a_page_links_every_file_of_data() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert [file.name for file in DATA if f"(data/{file.name})" not in pages] == []


def test_a_line_has_the_ratios_of_its_run() -> None:
    runs = {run: {"gloo_ratio": gloo, "mpi_ratio": mpi} for run, gloo, mpi in (("free", 8.0, 2.0), ("four", 4.0, 0.5))}
    lines = performance_chart.one_host({"collectives": [{"op": "all-reduce", "bytes": 4096, **runs}]})
    assert {line.label: line.points["all-reduce"] for line in lines} == {
        "gloo, two processes": [(4096, 8.0)],
        "gloo, four processes": [(4096, 4.0)],
        "Open MPI, two processes": [(4096, 2.0)],
        "Open MPI, four processes": [(4096, 0.5)],
    }


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
