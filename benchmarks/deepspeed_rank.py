"""A rank that times DeepSpeed's shared-memory all-reduce; it takes the commands of `xla_shmem.bench.worker`.

    python deepspeed_rank.py ADDRESS JOB RANKS

It needs torch and DeepSpeed 0.19 in its Python, no JAX, and the folder `python` of this checkout in PYTHONPATH.
DeepSpeed compiles its op at first use. The op works in place on a tensor, and takes one Python call each time.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import time
from typing import Any

import numpy as np
import torch
from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder

from xla_shmem.bench.rendezvous import connect, receive, send

ADDRESS, JOB, RANKS = sys.argv[1], sys.argv[2], int(sys.argv[3])
RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])


class _Rank:
    """Executes commands. Each method is a command."""

    def __init__(self) -> None:
        self._tensor: Any = None

    def prepare(self, cell: dict[str, Any], variants: list[str], turns_per_call: int | None) -> dict[str, Any]:
        """Makes the tensor of a cell; says why, if DeepSpeed has no such collective."""
        if cell["op"] != "all-reduce" or cell["dtype"] != "f32" or cell["reduction"] != "sum":
            reason = "DeepSpeed has a shared-memory op for sums of all-reduces only"
            return {"reasons": dict.fromkeys(variants, reason), "records": {}}
        self._tensor = torch.zeros(cell["count"])
        return {"reasons": {}, "records": {}}

    def check(self, variant: str) -> dict[str, Any]:
        """Counts the wrong elements of one all-reduce of whole numbers, whose sums are exact."""
        blocks = [(np.arange(self._tensor.numel()) % 251 + rank * 1000).astype(np.float32) for rank in range(RANKS)]
        self._tensor.copy_(torch.from_numpy(blocks[RANK]))
        torch.ops.deepspeed.inference_all_reduce_(self._tensor)
        wrong = int((self._tensor.numpy() != np.sum(blocks, axis=0)).sum())
        self._tensor.zero_()  # sums of zeros stay in range
        return {"wrong": wrong}

    def time(self, variant: str, warmup: int, turns: int, runs: int) -> dict[str, Any]:
        """Times as `xla_shmem.bench.worker` does: the fixed cost of a program is subtracted."""

        def seconds(turns: int) -> float:
            start = time.perf_counter()
            for _ in range(turns):
                torch.ops.deepspeed.inference_all_reduce_(self._tensor)
            return time.perf_counter() - start

        found = [(seconds(warmup), seconds(warmup + turns)) for _ in range(runs)]
        untimed = statistics.median(short for short, _ in found)
        return {"us": [(full - untimed) / turns * 1e6 for _, full in found]}


def main() -> None:
    """Executes commands until the command `end`."""
    os.environ["LOCAL_SIZE"] = str(RANKS)
    torch.set_num_threads(1)
    ShareMemCommBuilder().load(verbose=False).initialize(RANKS, RANK)
    with connect(ADDRESS, {"job": JOB, "rank": RANK, "host": socket.gethostname(), "ranks": RANKS}) as connection:
        rank = _Rank()
        while (name := (message := receive(connection)).pop("do")) != "end":
            send(connection, getattr(rank, name)(**message))


if __name__ == "__main__":
    main()
