"""Whether processes of a job on this host can reach each other: their host's name and the loopback interface."""

from __future__ import annotations

import errno
import os
import socket
import threading
from typing import Any

from xla_shmem.doctor.facts import Network

#: Seconds that name servers get to answer.
_PATIENCE_S = 5.0


def read_network() -> Network:
    """Returns the facts. Takes at most a few seconds, and does not raise."""
    name = socket.gethostname()
    return Network(name, _is_number(name), _why_name_is_useless(name), _why_loopback_is_useless())


def _is_number(name: str) -> bool:
    try:
        socket.inet_aton(name)
    except OSError:
        return False
    return True


def _why_name_is_useless(name: str) -> str:
    """Returns why gloo cannot listen at the address of this host's name: none of its addresses can be bound."""
    answer: list[list[tuple[int, tuple[Any, ...]]] | OSError] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answer.append([(family, address) for family, _, _, _, address in found])
        except OSError as error:
            answer.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    if not answer:
        return f"does not resolve within {_PATIENCE_S:.0f} s"
    if isinstance(answer[0], OSError):
        return f"does not resolve ({answer[0].strerror})"
    for family, address in answer[0]:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as listener:
                listener.bind(address)
                return ""
        except OSError:
            continue
    return f"resolves to {answer[0][0][1][0]}, which is no address of this machine"


def _why_loopback_is_useless() -> str:
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname(), timeout=_PATIENCE_S).close()
    except TimeoutError:
        return os.strerror(errno.ETIMEDOUT)
    except OSError as error:
        return str(error.strerror)
    return ""
