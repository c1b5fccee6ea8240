"""Shares of this machine's processors for the ranks of a job."""

from __future__ import annotations

import os


def processor_shares(num_ranks: int) -> list[set[int]]:
    """Returns equal shares of consecutive processors, out of those that this process may use; a remainder stays idle.

    Raises:
      ValueError: there are more ranks than processors.
    """
    processors = sorted(os.sched_getaffinity(0))
    each = len(processors) // num_ranks
    if each == 0:
        raise ValueError(f"{num_ranks} ranks cannot have processors of their own: there are {len(processors)}.")
    return [set(processors[rank * each : (rank + 1) * each]) for rank in range(num_ranks)]
