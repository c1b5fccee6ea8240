"""MaxText's own `train_compile` compiles ring attention for GPUs that are described, with the pass on."""

from __future__ import annotations

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
    permutes = [record for record in step.records if record["op"] == "collective-permute"]
    assert {record["lowered"] for record in permutes} == {"NVSHMEM"}
    # Keys and values of 2,048 tokens, 8 heads of 128 numbers in bf16. In each of two layers three permutes of them
    # forward, again for the backward, and in the backward itself; and three of gradients in f32. jax 0.11.1 combines
    # some.
    block = 2 * 2048 * 8 * 128 * 2
    assert sum(record["bytes"] * record["executions"] for record in permutes) == 2 * (3 * 3 * block + 3 * 2 * block)
    assert {record["op"] for record in step.records if record["lowered"] == "DEFAULT"} >= {"all-gather"}
