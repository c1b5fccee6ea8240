"""What the processes of a GPU job tell each other before NVSHMEM starts."""

from __future__ import annotations

import dataclasses
import json

from xla_shmem.gpu.process_facts import ProcessFacts


@dataclasses.dataclass(frozen=True)
class Announcement:
    """The announcement of one process to the others.

    Attributes:
      facts: its GPUs.
      error: why it cannot take part, "" if it can.
      agreement: version, options and NVSHMEM's variables that must be equal in all processes.
      free_bytes: free memory of its GPU.
    """

    facts: ProcessFacts
    error: str
    agreement: str
    free_bytes: int

    def to_json(self) -> str:
        """Returns text for the store."""
        return json.dumps(vars(self) | {"facts": self.facts.to_json()})

    @staticmethod
    def from_json(text: str) -> Announcement:
        """Reads the text of :meth:`to_json`."""
        value = json.loads(text)
        return Announcement(**value | {"facts": ProcessFacts.from_json(value["facts"])})
