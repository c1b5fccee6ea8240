"""Where the ranks of a benchmark meet its command: a socket in a private folder, or TCP for ranks on other hosts."""

from __future__ import annotations

import contextlib
import fcntl
import pickle
import secrets
import socket
import struct
import types
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from xla_shmem.errors import BenchError

_SIOCGIFADDR = 0x8915  # netdevice(7)

#: Seconds for a connection to one address, and for the rest of a message that has begun.
_WITHIN = 10


def send(connection: Connection, message: Any) -> None:
    """Sends a message, as `Connection.send` does.

    That one leaves a view of its buffer to a KeyboardInterrupt, and CPython 3.12 may then end with a segmentation
    fault.
    """
    connection.send_bytes(pickle.dumps(message))


def receive(connection: Connection) -> Any:
    """Returns the next message, as `Connection.recv` does; see `send`."""
    return pickle.loads(connection.recv_bytes())


class Listener:
    """Accepts the connections of ranks. Both ends prove that they know a key, which the ranks get with the address.

    Args:
      folder: private folder for the socket.
      other_hosts: whether ranks run on other hosts.

    Attributes:
      address: what `connect` needs.

    Raises:
      BenchError: the socket cannot be created.
    """

    def __init__(self, folder: Path, *, other_hosts: bool = False) -> None:
        self._key = secrets.token_bytes(16)
        self._socket = socket.socket(socket.AF_INET if other_hosts else socket.AF_UNIX)
        path = str(folder / "socket")
        try:
            self._socket.bind(("", 0) if other_hosts else path)
        except OSError as error:
            self._socket.close()
            if other_hosts:
                raise BenchError(f"cannot listen for ranks of other hosts: {error}.") from None
            raise BenchError(f"cannot create a socket at {path}: {error}; set TMPDIR to a short path.") from None
        self._socket.listen(1024)
        self._socket.settimeout(0.2)
        place = f"{self._socket.getsockname()[1]}:{','.join(_own_addresses())}" if other_hosts else f":{path}"
        self.address = f"{self._key.hex()}:{place}"

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._socket.close()

    def accept(self) -> tuple[Connection, dict[str, Any]] | None:
        """Returns a connection and what its rank says of itself; None if no rank came for a moment."""
        try:
            accepted, _ = self._socket.accept()
        except TimeoutError:
            return None
        # A stranger may say nothing, or half of a message.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _WITHIN, 0))
        connection = Connection(accepted.detach())
        with contextlib.suppress(OSError, EOFError, AuthenticationError):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            return connection, receive(connection)
        connection.close()
        return None


def connect(address: str, hello: dict[str, Any]) -> Connection:
    """Connects a rank to its command, and tells what it is.

    Args:
      address: `Listener.address`.
      hello: what `Listener.accept` returns.

    Raises:
      OSError: none of the addresses answers.
      AuthenticationError: what answers does not know the key.
    """
    key, port, place = address.split(":", 2)
    if port:
        connected = _first_that_answers(place.split(","), int(port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        connected = socket.socket(socket.AF_UNIX)
        connected.connect(place)
    connection = Connection(connected.detach())
    answer_challenge(connection, bytes.fromhex(key))
    deliver_challenge(connection, bytes.fromhex(key))
    send(connection, hello)
    return connection


def _first_that_answers(names: list[str], port: int) -> socket.socket:
    failures = []
    for name in names:
        try:
            connected = socket.create_connection((name, port), _WITHIN)
        except OSError as error:
            failures.append(f"{name} ({error})")
        else:
            connected.settimeout(None)
            return connected
    raise OSError(f"cannot reach the benchmark at port {port} of {', '.join(failures)}")


def _own_addresses() -> list[str]:
    """The IPv4 addresses of this host's interfaces, those that only this host reaches last."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, interface in socket.if_nameindex():
            request = struct.pack("256s", interface.encode()[:15])
            with contextlib.suppress(OSError):  # an interface without an address
                found.append(socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFADDR, request)[20:24]))
    return sorted(dict.fromkeys(found), key=lambda address: address.startswith("127."))
