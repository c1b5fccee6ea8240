"""The step of the tutorial's model of almost 1B parameters, compiled for eight GPUs: overlaps of its transfers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jax
import pytest
from compiler_runs import FLAG, ROOT, WHEELS, Compiler

from gpu_compile.environment import compile_environment

HIDE_LATENCY = "--xla_gpu_enable_latency_hiding_scheduler=true"
# XLA schedules before the pass, and stock XLA has the same pairs. Without the flag it orders by memory, then moves
# starts up and dones down to their first reader. In jax 0.12.0.1 that reader follows the start in the backward loop.
FEWEST = {"hiding": 5, "default": 3} if jax.__version_info__ < (0, 12) else {"hiding": 3, "default": 1}


def large_step(flags: list[str], *options: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "examples/tensor_tutorial/large_step.py"), "--json", *options]
    environment = compile_environment(WHEELS, [FLAG, *flags])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(420)
@pytest.mark.parametrize("scheduler", FEWEST)
def test_transfers_of_the_large_model_have_a_matmul_beside_them(compiler: Compiler, scheduler: str) -> None:
    flags = [HIDE_LATENCY] if scheduler == "hiding" else []
    found = large_step(flags, "--layers", "2")  # layers are a loop, so more of them make the same program
    assert found["parameters"] == 233_897_216
    # Rings of two ranks have one hop: a gather and a scatter forward, the gather again for the rematerialised block,
    # and both backward.
    assert found["permutes"] == 5
    assert found["overlapped"] >= FEWEST[scheduler]
