"""Ranks of this host and of others reach the listener, strangers do not."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from xla_shmem.bench.rendezvous import Listener, connect
from xla_shmem.errors import BenchError


def _accepted(listener: Listener) -> tuple[socket.socket, dict[str, object]]:
    for _ in range(50):
        if (found := listener.accept()) is not None:
            return found
    raise AssertionError("nobody came")


@pytest.mark.parametrize("other_hosts", [False, True])
def test_a_rank_says_what_it_is_and_then_both_sides_talk(tmp_path: Path, other_hosts: bool) -> None:
    with Listener(tmp_path, other_hosts=other_hosts) as listener:
        rank = connect(listener.address, {"rank": 3})
        ours, hello = _accepted(listener)
        assert hello == {"rank": 3}
        with rank, ours:
            ours.sendall(b"check\n")
            assert rank.recv(16) == b"check\n"


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b'{"rank": 0}\n', b'{"rank": 0, "secret": "guess"}\n', b"7\n"])
def test_strangers_are_turned_away(tmp_path: Path, line: bytes) -> None:
    with Listener(tmp_path, other_hosts=True) as listener:
        port = int(listener.address.split(":")[2])
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(line)
            assert listener.accept() is None
            assert stranger.recv(16) == b""


def test_a_rank_tries_the_addresses_one_after_the_other(tmp_path: Path) -> None:
    with Listener(tmp_path, other_hosts=True) as listener:
        address = listener.address.rsplit(":", 1)[0] + ":no-such-host.invalid,127.0.0.1"
        thread = threading.Thread(target=lambda: connect(address, {"rank": 1}).close())
        thread.start()
        ours, hello = _accepted(listener)
        thread.join()
        ours.close()
        assert hello == {"rank": 1}


def test_a_rank_that_reaches_nobody_names_all_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(OSError, match=rf"port {port} of no-such-host.invalid \(.*\), 127.0.0.1 \(.*refused\)"):
        connect(f"tcp:secret:{port}:no-such-host.invalid,127.0.0.1", {})


def test_a_folder_with_a_long_name_is_an_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="set TMPDIR to a short path"):
        Listener(tmp_path / ("long" * 40))
