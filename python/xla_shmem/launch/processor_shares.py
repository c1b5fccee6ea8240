"""Processors of this machine, dealt out to the ranks of a job."""

from __future__ import annotations

import os


def processor_shares(num_ranks: int) -> list[set[int]]:
    """Equal shares of the processors that this process may run on, neighbours together; what is left over stays idle.

    Raises:
      ValueError: there are more ranks than processors.
    """
    processors = sorted(os.sched_getaffinity(0))
    each = len(processors) // num_ranks
    if each == 0:
        raise ValueError(f"{num_ranks} ranks cannot have processors of their own: there are {len(processors)}.")
    return [set(processors[rank * each : (rank + 1) * each]) for rank in range(num_ranks)]
