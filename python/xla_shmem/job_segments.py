"""The shared-memory segments of one job, by name.

A process of a job names its segment ``/dev/shm/xla_shmem.<uid>.<job key>.<process>``.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SHM_DIRECTORY = Path("/dev/shm")


def job_segments(job: str) -> list[Path]:
    """Returns the segments of a job key that belong to the calling user, sorted by name."""
    uid = os.getuid()
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(SHM_DIRECTORY) as entries:
        for entry in entries:
            if not entry.name.startswith(f"xla_shmem.{uid}.{job}."):
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    found.append(Path(entry.path))
    return sorted(found)


def unlink_job_segments(job: str) -> list[Path]:
    """Unlinks the segments of a job key that belong to the calling user and returns their paths.

    Memory that a process still has mapped stays valid until it unmaps it or ends.
    """
    gone = []
    for path in job_segments(job):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            gone.append(path)
    return gone
