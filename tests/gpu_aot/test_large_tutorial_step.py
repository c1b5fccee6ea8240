"""The step of the tutorial's model of almost 1B parameters, compiled for eight GPUs: overlaps of its transfers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from compiler_runs import FLAG, ROOT, WHEELS, Compiler

from gpu_compile.environment import compile_environment


def large_step(*options: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "examples/tensor_tutorial/large_step.py"), "--json", *options]
    environment = compile_environment(WHEELS, [FLAG])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(420)
def test_most_transfers_of_the_large_model_have_a_matmul_beside_them(compiler: Compiler) -> None:
    found = large_step("--layers", "2")  # layers are a loop, so more of them make the same program
    assert found["parameters"] == 233_897_216
    # Rings of two ranks have one hop: a gather and a scatter forward, the gather again for the rematerialised block,
    # and both backward.
    assert found["permutes"] == 5
    assert found["overlapped"] >= 3
