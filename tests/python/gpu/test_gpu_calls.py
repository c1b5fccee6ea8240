"""docs/data/gpu_calls.csv has a rule for each call of the CUDA driver, NVSHMEM and NVML that the sources make."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

#: Files, and how a call stands in them.
_SOURCES = {
    "driver": (
        (r'"(cu[A-Z]\w+)"', "xla_patch/nvshmem/gpu/cuda_driver.h"),
        (r"\bcuda\.(cu[A-Z]\w+)\(", "python/xla_shmem/gpu/cuda_driver.py"),
    ),
    "NVSHMEM": ((r'"(nvshmemx?_\w+)"', "xla_patch/nvshmem/loader.cc"),),
    "NVML": ((r"\b(nvml[A-Z]\w+)\b(?!_)", "python/xla_shmem/gpu/nvml.py"),),
}

#: Names in those sources that are no calls.
_NO_CALLS = re.compile(r"nvmlGpuFabricInfo_v2_t")


def _rows() -> list[dict[str, str]]:
    with open(ROOT / "docs/data/gpu_calls.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_every_call_has_a_rule_and_every_rule_a_call() -> None:
    for library, places in _SOURCES.items():
        made: set[str] = set()
        for pattern, path in places:
            made |= set(re.findall(pattern, (ROOT / path).read_text()))
        made = {call for call in made if not _NO_CALLS.fullmatch(call)}
        assert made == {row["call"] for row in _rows() if row["library"] == library}


def test_every_rule_has_a_source() -> None:
    assert [row for row in _rows() if not all(row.values())] == []
