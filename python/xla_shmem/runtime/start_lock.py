"""The lock of a host for starts of NVSHMEM by processes that share a GPU."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

_FOLDER = "/dev/shm"


@contextlib.contextmanager
def starting_alone(timeout_s: float) -> Iterator[None]:
    """Holds the lock. NVSHMEM's PEs that share a GPU meet in shared memory under one name for all jobs (mps_shm_0).

    Raises:
      RuntimeError: another job has had the lock for `timeout_s`, or there is no shared memory.
    """
    try:
        handle = os.open(_FOLDER, os.O_RDONLY)
    except OSError as error:
        raise RuntimeError(
            f"processes that share a GPU need {_FOLDER} ({error.strerror}): mount a tmpfs there"
        ) from None
    give_up = time.monotonic() + timeout_s
    try:
        while not _is_locked(handle):
            if time.monotonic() > give_up:
                raise RuntimeError(
                    f"for {timeout_s:g} s another job of this host has been starting whose processes share a GPU, as"
                    f" those of this one do (lock on {_FOLDER}): start this one later"
                )
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    """Takes the lock if it is free."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
