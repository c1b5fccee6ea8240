"""Passes file descriptors between the processes of a host, over Unix sockets.

Each process listens at an address of its own, tells the others, and then exchanges with all at once. Addresses are
abstract: nothing is left behind in a file system. They hold a random number, and a process of another user is not
served. They reach only processes of one network namespace.
"""

from __future__ import annotations

import array
import contextlib
import os
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

#: SCM_MAX_FD of Linux is 253; no process has so many GPUs.
_MOST_FILES = 64

#: A message is the number of the process that sends, with its files.
_NUMBER = struct.Struct("=i")


class Peer(NamedTuple):
    """Another process.

    Attributes:
      process: its number.
      address: where it listens.
      files: how many it gives.
    """

    process: int
    address: str
    files: int


class FileExchange:
    """This process's end: it listens from the beginning.

    Attributes:
      address: what other processes need to know; text without spaces.

    Raises:
      RuntimeError: there is no Unix socket.
    """

    def __init__(self) -> None:
        self.address = f"xla-shmem-{os.getpid()}-{secrets.token_hex(16)}"
        try:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.bind(f"\0{self.address}")
            self._listener.listen(socket.SOMAXCONN)
        except OSError as error:
            raise RuntimeError(f"no Unix socket could listen: {error.strerror}") from None

    def close(self) -> None:
        """Stops to listen."""
        self._listener.close()

    def exchange(
        self, process: int, own: Sequence[int], others: Sequence[Peer], timeout_s: float
    ) -> dict[int, list[int]]:
        """Gives files to each of the others; all must call this.

        Connections wait in the backlog and messages in the sockets, so nobody waits for another process before it has
        sent its own files.

        Args:
          process: number of this process.
          own: what it gives.
          others: the others.
          timeout_s: seconds to wait for them together.

        Returns:
          What each gives, by process; the caller closes them.

        Raises:
          RuntimeError: one has not answered in time, or not as expected; names it.
        """
        give_up = time.monotonic() + timeout_s
        if len(own) > _MOST_FILES:
            raise RuntimeError(f"{len(own)} GPUs in one process are too many")
        received: dict[int, list[int]] = {}
        with contextlib.ExitStack() as closed, contextlib.ExitStack() as closed_on_error:
            connections = [closed.enter_context(_connect(peer)) for peer in others]
            self._serve(process, own, len(others), give_up)
            for peer, connection in zip(others, connections, strict=True):
                received[peer.process] = files = _receive(peer, connection, give_up)
                for file in files:
                    closed_on_error.callback(os.close, file)
                if len(files) != peer.files:
                    raise _not_reached(peer, f"it sent {len(files)} of {peer.files} file descriptors")
            closed_on_error.pop_all()
        return received

    def _serve(self, process: int, own: Sequence[int], others: int, give_up: float) -> None:
        """Gives the files to all who ask; messages stay readable after the sender has closed."""
        served = 0
        while served < others:
            self._listener.settimeout(_left(give_up))
            try:
                connection, _ = self._listener.accept()
                with connection:
                    if not _is_of_this_user(connection):
                        continue
                    socket.send_fds(connection, [_NUMBER.pack(process)], own)
            except TimeoutError:
                raise RuntimeError(
                    f"only {served} of {others} processes of this host have asked for memory of process {process}"
                ) from None
            except OSError as error:
                raise RuntimeError(f"files could not be sent: {error.strerror}") from None
            served += 1


def _left(give_up: float) -> float:
    return max(give_up - time.monotonic(), 0.001)  # 0 would mean without blocking


def _connect(peer: Peer) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(f"\0{peer.address}")
    except OSError as error:
        connection.close()
        raise _not_reached(peer, str(error.strerror)) from None
    return connection


def _receive(peer: Peer, connection: socket.socket, give_up: float) -> list[int]:
    """Returns the files of the peer; none if the message is not its."""
    connection.settimeout(_left(give_up))
    files = array.array("i")
    room = socket.CMSG_SPACE(_MOST_FILES * files.itemsize)
    try:
        # `socket.recv_fds` of Python 3.11 ignores its flags.
        message, ancillary, _, _ = connection.recvmsg(_NUMBER.size, room, socket.MSG_CMSG_CLOEXEC)
    except TimeoutError:
        raise _not_reached(peer, "it has not answered") from None
    except OSError:
        return []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(content)
    if message == _NUMBER.pack(peer.process):
        return list(files)
    for file in files:
        os.close(file)
    return []


def _is_of_this_user(connection: socket.socket) -> bool:
    credentials = struct.Struct("=iII")  # process, user, group
    read = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return bool(credentials.unpack(read)[1] == os.geteuid())


def _not_reached(peer: Peer, why: str) -> RuntimeError:
    return RuntimeError(
        f"process {peer.process} of this host cannot be reached by a Unix socket ({why}): the containers of a host need"
        " one network namespace, or one process with all GPUs"
    )
