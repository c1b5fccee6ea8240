"""For each kind of group: what an all-reduce of 4 MiB was compiled to, what the host sends during it, what it computes.

Argument: the groups of each kind, as JSON. The ranks meet before and after each reading of the bytes: a rank that reads
late would otherwise miss what the other rank of its host has sent, or count what belongs to the next kind.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import jax
import numpy as np
from case_world import World
from jax import lax
from jax.experimental import multihost_utils
from job_runs import report

TIMES = 4

_OURS = re.compile(r'custom_call_target="xla_shmem\.(?!(?:begin|end)")(\w+)"')
_LEFT = re.compile(r" (all-reduce|all-gather|reduce-scatter|collective-permute)(?:-start)?\(")
_SEGMENT = re.compile(r"/dev/shm/xla_shmem\.\d+\.\w+\.(\d+)")


def _sent(name: str) -> int:
    """Bytes that this host has sent so far. All ranks read them before any goes on."""
    multihost_utils.sync_global_devices(f"read {name}")
    lines = Path("/proc/net/dev").read_text().splitlines()
    (counters,) = (line.split(":")[1].split() for line in lines if "eth0:" in line)
    multihost_utils.sync_global_devices(f"have read {name}")
    return int(counters[8])


def main() -> None:
    jax.distributed.initialize()
    world = World()
    for kind, groups in json.loads(sys.argv[1]).items():
        terms = world.random.integers(-99, 99, (world.n, 1 << 20)).astype(np.int32)
        function = world.shard_map(lambda x, groups=groups: lax.psum(x, "x", axis_index_groups=groups))
        operand = world.put(terms)
        text = function.lower(operand).compile().as_text()
        jax.block_until_ready(function(operand))
        before = _sent(f"before {kind}")
        for _ in range(TIMES):
            result = jax.block_until_ready(function(operand))
        sent = _sent(f"after {kind}") - before
        expected = np.empty_like(terms)
        for group in groups:
            expected[group] = terms[group].sum(0)
        world.equals(result, expected)
        ours, left = _OURS.findall(text), _LEFT.findall(text)
        report({"case": kind, "ours": ours, "left": left, "sent_of_operand": sent / TIMES / terms[0].nbytes})
    mapped = sorted({int(number) for number in _SEGMENT.findall(Path("/proc/self/maps").read_text())})
    report({"case": "host", "name": os.uname().nodename, "mapped": mapped})


if __name__ == "__main__":
    main()
