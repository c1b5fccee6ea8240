"""Output of the ranks: whole lines, each after its rank's number."""

from __future__ import annotations

import os
from typing import BinaryIO

_COLOURS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91)  # ANSI foregrounds, one per rank in turn
_LONGEST_LINE = 64 * 1024


class RankOutput:
    """Forwards one stream of one rank to one of ours, line by line.

    Args:
      source: file descriptor of the pipe's read end; set to non-blocking.
      sink: our stdout or stderr.
      prefix: beginning of each line; empty for none.
    """

    def __init__(self, source: int, sink: BinaryIO, prefix: bytes) -> None:
        os.set_blocking(source, False)
        self.source = source
        self._sink = sink
        self._prefix = prefix
        self._line = b""

    def forward(self) -> bool:
        """Forwards the output that has arrived and returns whether more may follow.

        Raises:
          BrokenPipeError: the reader of our output has closed it.
        """
        try:
            chunk = os.read(self.source, 1 << 16)
        except BlockingIOError:
            return True
        *lines, self._line = (self._line + chunk).split(b"\n")
        if self._line and (not chunk or len(self._line) > _LONGEST_LINE):
            lines.append(self._line)
            self._line = b""
        if lines:
            self._write(b"".join(self._prefix + line + b"\n" for line in lines))
        return bool(chunk)

    def _write(self, data: bytes) -> None:
        try:
            self._sink.write(data)
            self._sink.flush()
        except BrokenPipeError:
            # What the buffer still holds would fail again when Python ends, which makes the exit code 120.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._sink.fileno())
            os.close(nowhere)
            raise


def rank_prefix(rank: int, num_ranks: int, *, colour: bool) -> bytes:
    """Returns ``[3] ``, as wide as the largest rank's, in the rank's colour if asked."""
    text = f"[{rank:>{len(str(num_ranks - 1))}}]"
    if colour:
        text = f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{text}\x1b[0m"
    return f"{text} ".encode()
