"""The two packages under python/: what the workloads may know, and that a module's name says where it is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[3] / "python"
WORKLOADS = sorted((PYTHON / "long_context").rglob("*.py"))


def transports(text: str) -> list[str]:
    """The transports, variables of xla-shmem and its flag that a text names."""
    return re.findall(r"\b(?:NV)?SHMEM\b|\bNCCL\b|(?i:\bgloo\b)|\bXLA_SHMEM_\w*|xla_gpu_\w*", text)


@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: str(path.relative_to(PYTHON)))
def test_no_module_of_the_workloads_names_what_carries_collectives(path: Path) -> None:
    assert transports(path.read_text()) == []


def test_the_names_are_found() -> None:
    text = (
        "SHMEM, NVSHMEM and NCCL; Gloo. XLA_SHMEM_OPS, --xla_gpu_experimental_enable_nvshmem; xla-shmem, xla_shmem.cli"
    )
    assert len(transports(text)) == 6


def test_no_module_of_the_workloads_has_the_name_of_another_module() -> None:
    names = Counter(path.stem for path in PYTHON.rglob("*.py") if path.stem != "__init__")
    assert {path.stem: names[path.stem] for path in WORKLOADS if names[path.stem] > 1} == {}
