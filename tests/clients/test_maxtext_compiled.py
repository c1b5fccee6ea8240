"""MaxText's own `train_compile` compiles ring attention for GPUs that are described, with the pass on."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from maxtext_table2 import compile_row, keys
from published import Row

pytestmark = pytest.mark.timeout(900)


def test_the_rings_permutes_go_to_nvshmem(tmp_path: Path) -> None:
    wheels = Path(__file__).parents[2] / f".venv-gpu-{version('jax')}"
    assert wheels.is_dir(), "scripts/setup_gpu_aot.sh makes it"
    small = ["override_model_config=true", "base_num_decoder_layers=2", "vocab_size=1024"]
    step = compile_row([*keys(Row(8192, context=4, tensor=1)), *small], 4, wheels, tmp_path / "step.pb")
    moved = Counter((record["op"], record["executions"]) for record in step.records if record["lowered"] == "NVSHMEM")
    # In each of two layers three permutes of keys and values forward, again for the backward, and in the backward
    # itself; and three of gradients.
    assert moved["collective-permute", 2] == 12
    assert {record["op"] for record in step.records if record["lowered"] == "DEFAULT"} >= {"all-gather"}
