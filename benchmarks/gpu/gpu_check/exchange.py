"""Notes and barriers between the ranks of a section, through a folder that `ranks` makes and removes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

VARIABLE = "GPU_CHECK_EXCHANGE"

_TIMEOUT_S = 60.0


def rank() -> int:
    """This process's number."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


def ranks() -> int:
    """The number of ranks."""
    return int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))


def put(name: str, note: bytes) -> None:
    """Writes a note, once."""
    path = Path(os.environ[VARIABLE]) / name
    new = path.with_name(f".{name}.{rank()}")
    new.write_bytes(note)
    new.rename(path)


def get(name: str) -> bytes:
    """Waits for a note and returns it.

    Raises:
      TimeoutError: the note does not come in time.
    """
    path, give_up = Path(os.environ[VARIABLE]) / name, time.monotonic() + _TIMEOUT_S
    while not path.exists():
        if time.monotonic() > give_up:
            raise TimeoutError(f"rank {rank()} waited for {name} for {_TIMEOUT_S:.0f} s in vain")
        time.sleep(0.0005)
    return path.read_bytes()


_barriers = 0


def barrier() -> None:
    """Returns when all ranks have called it the same number of times."""
    global _barriers
    _barriers += 1
    if ranks() > 1:
        put(f"barrier-{_barriers}-{rank()}", b"")
        for other in range(ranks()):
            get(f"barrier-{_barriers}-{other}")


def leave() -> None:
    """Ends this rank once all have called this. Exit handlers of NVSHMEM and JAX would wait for peers that are gone."""
    barrier()
    if rank() == 0:
        time.sleep(0.5)  # rank 0 runs JAX's coordination service; if it ends first, the others report a failure
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
