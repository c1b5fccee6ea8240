"""The charts of docs/performance.md show what docs/data holds."""

from __future__ import annotations

import json
from pathlib import Path

import performance_chart

ROOT = Path(__file__).parents[3]
DATA = sorted((ROOT / "docs/data").glob("*.json"))


def test_the_pictures_are_those_of_the_data() -> None:
    for name, picture in performance_chart.charts(ROOT / "docs/data").items():
        assert (ROOT / "docs/pictures" / name).read_text() == picture, "run: python tools/performance_chart.py"


def test_a_page_links_every_file_of_data() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert [file.name for file in DATA if f"(data/{file.name})" not in pages] == []


def test_a_line_has_the_ratios_of_its_rival() -> None:
    times = {"shmem": 2.0, "gloo": 16.0, "openmpi": 4.0, "mpich": 1.0, "shmem-1": 3.0, "xla-1": 6.0}
    variants = {name: {"p50_us": us} for name, us in times.items()}
    lines = performance_chart.one_host([{"op": "all-gather", "bytes": 4096, "variants": variants}])
    assert {line.label: line.points.get("all-gather") for line in lines} == {
        "Open MPI": [(4096, 2.0)],
        "MPICH": [(4096, 0.5)],
        "DeepSpeed": None,
        "XLA in one process": [(4096, 2.0)],
    }


def test_no_element_beside_the_peers_was_wrong() -> None:
    runs = json.loads((ROOT / "docs/data/peers.json").read_text())["runs"]
    assert {name: len(rows) for name, rows in runs.items()} == dict.fromkeys(runs, 35)
    wrong = [one["wrong"] for rows in runs.values() for row in rows for one in row["variants"].values()]
    assert wrong == [0] * len(wrong)
