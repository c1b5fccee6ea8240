"""XLA's parser and printer of HLO text.

They run in a process of their own, because XLA ends its process on some inputs: on a mesh with two axes of one name, on
deep nesting, and so on. That process is started for the first text and serves all later ones. It runs this file, and
needs nothing of this package.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import IO, BinaryIO

#: Request: 1 byte that says what to do, number of bytes that follow. Answer: the same with a status.
_HEADER = struct.Struct("=cQ")
_PARSE, _PRINT = b"t", b"p"
_DONE, _REFUSED = b"+", b"-"

#: The line with which XLA ends its process: ``F0000 00:00:17.78   10987 mesh_and_axis.cc:200] Check failed: …``.
_FATAL = re.compile(r"^F\d{4} .*?\] *(?P<reason>.*)$", re.MULTILINE)


class XlaTextError(Exception):
    """XLA refuses an input; the message says why, without the input's name and without a full stop."""


def parse(text: str) -> bytes:
    """Returns the serialized ``HloModuleProto`` of an HLO text.

    Raises:
      XlaTextError: the installed jaxlib cannot parse it.
    """
    return _ask(_PARSE, text.encode())


def print_module(proto: bytes) -> str:
    """Returns the text of a serialized ``HloModuleProto``.

    Raises:
      XlaTextError: the installed jaxlib does not accept it.
    """
    return _ask(_PRINT, proto).decode("utf-8", "replace")


class _Server:
    """The process. It ends when its standard input is closed, so at the latest with this process."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the server)
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, what: bytes, data: bytes) -> bytes:
        """Returns the answer. Raises: XlaTextError, also if the process ends; then it is of no more use."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, what, data)
            status, answer = _receive(self._process.stdout)
        except (BrokenPipeError, EOFError):
            raise XlaTextError(f"XLA ends its process: {self._last_words()}") from None
        except BaseException:  # such as Ctrl-C: the next request would get this answer
            self._process.kill()
            self._process.wait()
            raise
        if status == _REFUSED:
            raise XlaTextError(answer.decode("utf-8", "replace"))
        return answer

    @property
    def usable(self) -> bool:
        """Whether it runs and belongs to this process: after a fork, `poll` finds no such child in the new process."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process and waits for that."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._process.wait()
        self._errors.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read().decode("utf-8", "replace")
        if fatal := _FATAL.search(text):
            return fatal["reason"].strip().rstrip(".")
        if code < 0:
            return signal.Signals(-code).name
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1].rstrip(".") if lines else f"exit code {code}"


_lock = threading.Lock()
_server: _Server | None = None


def _ask(what: bytes, data: bytes) -> bytes:
    global _server
    with _lock:
        if _server is None or not _server.usable:
            if _server is not None:
                _server.close()
            _server = _Server()
        return _server.ask(what, data)


def _close_at_exit() -> None:
    if _server is not None:
        _server.close()


def _send(stream: IO[bytes] | BinaryIO, kind: bytes, data: bytes) -> None:
    stream.write(_HEADER.pack(kind, len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes] | BinaryIO) -> tuple[bytes, bytes]:
    kind, size = _HEADER.unpack(_read(stream, _HEADER.size))
    return kind, _read(stream, size)


def _read(stream: IO[bytes] | BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _serve() -> None:
    from jaxlib import _hlo  # type: ignore[attr-defined]

    # What XLA prints must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the process that asks, and that closes the pipe
    work: dict[bytes, Callable[[bytes], bytes]] = {
        _PARSE: lambda data: bytes(_hlo.hlo_module_from_text(data.decode()).as_serialized_hlo_module_proto()),
        _PRINT: lambda data: str(_hlo.HloModule.from_serialized_hlo_module_proto(data).to_string()).encode(),
    }
    while True:
        try:
            what, data = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            status, answer = _DONE, work[what](data)
        except (RuntimeError, UnicodeDecodeError) as error:
            status, answer = _REFUSED, _first_line(error).encode()
        _send(answers, status, answer)


def _first_line(error: Exception) -> str:
    """Returns XLA's message without status code, source excerpt and final full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[1].startswith("was parsing"):
        return lines[1].removeprefix("was parsing ").rstrip(".:")
    return lines[0].rstrip(".:") if lines else "no reason given"


if __name__ == "__main__":
    _serve()
else:
    atexit.register(_close_at_exit)
