"""Where the ranks of a benchmark meet its command: a socket in a private folder, or TCP for ranks on other hosts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import secrets
import socket
import struct
import types
from pathlib import Path
from typing import Any

from xla_shmem.errors import BenchError

_SIOCGIFADDR = 0x8915  # netdevice(7)

#: Seconds for a connection to one address, and for the first line of a rank.
_WITHIN = 10.0


class Listener:
    """Accepts the connections of ranks.

    A connection by TCP counts only if it knows a secret that the ranks get with the address.

    Args:
      folder: private folder for the socket.
      other_hosts: whether ranks run on other hosts.

    Attributes:
      address: what `connect` needs.

    Raises:
      BenchError: the socket cannot be created.
    """

    def __init__(self, folder: Path, *, other_hosts: bool = False) -> None:
        self._secret = secrets.token_hex(16) if other_hosts else ""
        self._socket = socket.socket(socket.AF_INET if other_hosts else socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if other_hosts:
                self._socket.bind(("", 0))
                self.address = f"tcp:{self._secret}:{self._socket.getsockname()[1]}:{','.join(_own_addresses())}"
            else:
                self.address = str(folder / "socket")
                self._socket.bind(self.address)
        except OSError as error:
            self._socket.close()
            if other_hosts:
                raise BenchError(f"cannot listen for ranks of other hosts: {error}.") from None
            raise BenchError(
                f"cannot create a socket at {self.address}: {error}; set TMPDIR to a short path."
            ) from None
        self._socket.listen(1024)
        self._socket.settimeout(0.2)

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._socket.close()

    def accept(self) -> tuple[socket.socket, dict[str, Any]] | None:
        """Returns a connection and what its rank says of itself; None if no rank came for a moment."""
        try:
            connection, _ = self._socket.accept()
        except TimeoutError:
            return None
        connection.settimeout(_WITHIN)
        with contextlib.suppress(OSError, ValueError):
            hello = json.loads(connection.makefile("r", encoding="utf-8").readline(1 << 12))
            if isinstance(hello, dict) and secrets.compare_digest(str(hello.pop("secret", "")), self._secret):
                return connection, hello
        connection.close()
        return None


def connect(address: str, hello: dict[str, Any]) -> socket.socket:
    """Connects a rank to its command, and tells what it is.

    Args:
      address: `Listener.address`.
      hello: what `Listener.accept` returns.

    Raises:
      OSError: none of the addresses answers.
    """
    if address.startswith("tcp:"):
        _, secret, port, names = address.split(":", 3)
        connection = _first_that_answers(names.split(","), int(port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        secret = ""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
    connection.sendall((json.dumps({**hello, "secret": secret}) + "\n").encode())
    return connection


def _first_that_answers(names: list[str], port: int) -> socket.socket:
    failures = []
    for name in names:
        try:
            connection = socket.create_connection((name, port), _WITHIN)
        except OSError as error:
            failures.append(f"{name} ({error})")
        else:
            connection.settimeout(None)
            return connection
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
