"""Reads the tables that XLA_SHMEM_STATS=1 prints when a process ends."""

from __future__ import annotations

import re


def calls_on_shmem(op: str, output: str) -> list[int]:
    """Calls of an op on SHMEM in each row of the tables: one for each process and instruction, in order of output."""
    return [int(calls) for calls in re.findall(rf"^(?:\[\d+\])? +(\d+) .*% +{op} ", output, re.MULTILINE)]
