"""Mistakes planted in the models: Spin must find each, so the models can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from cpu_mistakes import CPU_MISTAKES
from gpu_mistakes import GPU_MISTAKES
from mistakes import ENDLESS
from spin_checks import MODELS, Verifier, error_of

MISTAKES = CPU_MISTAKES | GPU_MISTAKES


def test_no_two_mistakes_have_one_name() -> None:
    assert len(MISTAKES) == len(CPU_MISTAKES) + len(GPU_MISTAKES)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path: Path, name: str) -> None:
    mistake = MISTAKES[name]
    text = (MODELS / mistake.bounds.model).read_text()
    verifier = Verifier(tmp_path, text.replace(mistake.original, mistake.replacement), mistake.bounds)
    output = verifier.search_endless_runs() if mistake.found_as == ENDLESS else verifier.search()
    assert mistake.found_as in error_of(output), output
