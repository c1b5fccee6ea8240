"""The rings of a job that is taken apart to see what its ring adds to a step. Free of JAX."""

from __future__ import annotations

import enum

from xla_shmem.train.step_log import LOG_NAME


class Ring(enum.Enum):
    """How the ring of a training step sends its blocks."""

    SENDING = "sending"  #: As it is.
    WAITING = "waiting"  #: Keeps them, and sends one element of each: a rank waits for its neighbour and hardly more.
    SILENT = "silent"  #: Keeps them, and sends nothing.

    @property
    def log_name(self) -> str:
        """Name of the log of its steps; who follows the job's own log sees those that send."""
        return LOG_NAME if self is Ring.SENDING else f"{self.value}.jsonl"
