"""XLA's published module of Llama 3 8B with ring attention over four GPUs: `inspect decide` gives what the rule says.

XLA_SOURCE names a checkout of XLA that holds the module.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from inspect_runs import inspected

from xla_shmem.hlo.files import read_module

MODULE = "xla/tools/benchmarks/hlo/hlo_llama3_8b_cp_bf16_1x4.hlo"
THRESHOLD = 16 << 20

_COLLECTIVE = re.compile(r"%?(\S+) = (\S+) (all-reduce|all-gather|collective-permute|reduce-scatter|all-to-all)\(")
_BYTES = {"f32": 4, "s32": 4, "bf16": 2, "pred": 1}


@pytest.fixture
def module() -> Path:
    folder = os.environ.get("XLA_SOURCE")
    if not folder:
        pytest.skip(f"XLA_SOURCE does not name a checkout of XLA with {MODULE}")
    return Path(folder, MODULE)


def _size(shape: str) -> int:
    match = re.match(r"([a-z0-9]+)\[([0-9,]*)\]", shape)
    assert match, shape
    return _BYTES[match[1]] * math.prod(int(number) for number in match[2].split(",") if number)


def test_permutes_and_small_all_reduces_go_to_nvshmem(module: Path, tmp_path: Path) -> None:
    collectives = {name: (op, _size(shape)) for name, shape, op in _COLLECTIVE.findall(module.read_text())}
    expected = {
        name: "NVSHMEM" if op == "collective-permute" or (op == "all-reduce" and size < THRESHOLD) else "DEFAULT"
        for name, (op, size) in collectives.items()
    }
    assert {"NVSHMEM", "DEFAULT"} == set(expected.values())
    rewritten = tmp_path / "rewritten.txt"
    records = inspected("decide", module, "--devices-per-process", "1", "--output", rewritten)
    assert {name: record["backend"] for name, record in records.items()} == expected
    assert {name: record["bytes"] for name, record in records.items()} == {n: s for n, (_, s) in collectives.items()}
    print(Counter((record["op"], record["backend"], record["lowered"], record["rule"]) for record in records.values()))
    # XLA's own parser reads what the pass wrote.
    assert read_module(str(rewritten)).name == "jit_train_step"
