"""A small process that cleans up after a launcher that was killed with SIGKILL.

It holds the read end of a pipe whose only write end is the launcher's. The launcher writes each process group that it
starts to the pipe, and a last word when the job has ended. If the pipe closes without that word, the guard kills the
groups and unlinks the job's shared memory. (PR_SET_PDEATHSIG would reach the ranks, but neither their children nor the
segments.)
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from xla_shmem.launch.segments import unlink_job_segments

_DISMISSED = b"dismissed"


class JobGuard:
    """Forks the guard of a job. Call it before any thread is started."""

    def __init__(self, job: str) -> None:
        read_end, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._pipe)
                _guard(read_end, job)
            finally:
                os._exit(0)
        os.close(read_end)

    def watch(self, process_group: int) -> None:
        """Adds a process group that the guard kills if the launcher dies."""
        os.write(self._pipe, b"%d\n" % process_group)

    def dismiss(self) -> None:
        """Ends the guard, after the launcher has stopped the ranks and unlinked the segments itself."""
        os.write(self._pipe, _DISMISSED + b"\n")
        os.close(self._pipe)
        os.waitpid(self._pid, 0)


def _guard(read_end: int, job: str) -> None:
    os.setsid()  # so that neither Ctrl-C nor a kill of the launcher's group reaches it
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.set_blocking(read_end, True)
    words = b""
    while chunk := os.read(read_end, 4096):
        words += chunk
    lines = words.split()
    if _DISMISSED in lines:
        return
    groups = {int(line) for line in lines}
    for _ in range(50):  # a rank may just be forking, or creating its segment
        groups = {group for group in groups if _kill(group)}
        unlink_job_segments(job)
        if not groups:
            break
        time.sleep(0.02)


def _kill(process_group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_group, signal.SIGKILL)
        return True
    return False
