"""Which rank came to its end first.

When one rank ends, the others fail because they wait for it, and JAX then lets all of them exit at the same moment. So
the order of exits does not tell the cause. A rank that comes to its end writes its number to a pipe of the launcher.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping

# "descriptor:inode" of the pipe. The inode tells whether the descriptor is still the pipe.
_PIPE = "XLA_SHMEM_ENDS_PIPE"
_RANK = "XLA_SHMEM_LOCAL_RANK"


def tell_launcher(environ: Mapping[str, str]) -> None:
    """Says to the launcher that this rank has come to its end; does nothing without a launcher."""
    descriptor, _, inode = environ.get(_PIPE, "").partition(":")
    rank = environ.get(_RANK, "")
    if not (descriptor.isdecimal() and inode.isdecimal() and rank.isdecimal()):
        return
    with contextlib.suppress(OSError):
        found = os.fstat(int(descriptor))
        if stat.S_ISFIFO(found.st_mode) and found.st_ino == int(inode):
            os.write(int(descriptor), f"{rank}\n".encode())


class FirstEnd:
    """The launcher's side of the pipe."""

    def __init__(self) -> None:
        self.source, self._write_end = os.pipe()
        os.set_blocking(self.source, False)
        self._text = b""
        self._ranks: list[int] = []

    @property
    def write_end(self) -> int:
        """Descriptor that the ranks must inherit."""
        return self._write_end

    def environment(self) -> dict[str, str]:
        """Variables that tell a rank of the pipe."""
        return {_PIPE: f"{self._write_end}:{os.fstat(self._write_end).st_ino}"}

    def order(self) -> list[int]:
        """Returns the ranks that have come to their end, the first at the front."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.source, 4096):
                self._text += chunk
        *lines, self._text = self._text.split(b"\n")
        self._ranks += [int(line) for line in lines if line.isdigit()]
        return self._ranks

    def close(self) -> None:
        """Closes both ends."""
        os.close(self.source)
        os.close(self._write_end)
