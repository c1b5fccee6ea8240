"""The shared-memory segments of one job, by name.

A process names its segment ``/dev/shm/xla_shmem.<uid>.<job key>.<process>``. Under `xla-shmem launch` the
first half of that key, 16 hexadecimal digits, is the first half of the launcher's own key. Rank 0 of the program
generates the second half (``runtime/job.py``), so that two programs in turn under one launcher have different segments.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SHM_DIRECTORY = Path("/dev/shm")

_LAUNCHER_DIGITS = 16


def job_segments(job: str) -> list[Path]:
    """Returns the calling user's segments of all programs that ran under a launcher's key, sorted by name."""
    uid = os.getuid()
    prefix = f"xla_shmem.{uid}.{job[:_LAUNCHER_DIGITS]}"
    found = []
    with contextlib.suppress(OSError), os.scandir(SHM_DIRECTORY) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix):
                continue
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    found.append(Path(entry.path))
    return sorted(found)


def unlink_job_segments(job: str) -> list[Path]:
    """Unlinks the segments that :func:`job_segments` finds and returns their paths.

    A process that has mapped one can use it until it unmaps it or ends.
    """
    gone = []
    for path in job_segments(job):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            gone.append(path)
    return gone
