"""The kinds of ring with which `compare` measures what a job's ring adds to a step. Free of JAX."""

from __future__ import annotations

import enum

from long_context.train.step_log import LOG_NAME


class Ring(enum.Enum):
    """How the ring of a training step sends its blocks."""

    SENDING = "sending"  #: Sends its blocks, as the job does.
    WAITING = "waiting"  #: Keeps its blocks and sends one element of each: a rank only waits for its neighbour.
    SILENT = "silent"  #: Keeps its blocks and sends nothing.

    @property
    def log_name(self) -> str:
        """Name of the log of its steps. The sending ring writes the job's own log, which `run_job` follows."""
        return LOG_NAME if self is Ring.SENDING else f"{self.value}.jsonl"
