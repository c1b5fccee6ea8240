"""Ranks of this host and of others reach the listener, strangers do not."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path

import pytest

from xla_shmem.bench import rendezvous
from xla_shmem.bench.rendezvous import Listener, connect
from xla_shmem.errors import BenchError


def _accepted(listener: Listener) -> tuple[Connection, dict[str, object]]:
    for _ in range(50):
        if (found := listener.accept()) is not None:
            return found
    raise AssertionError("nobody came")


@contextlib.contextmanager
def _connecting(address: str, hello: dict[str, object]) -> Iterator[list[Connection]]:
    """A rank that connects meanwhile; afterwards the list has its end."""
    ends: list[Connection] = []
    thread = threading.Thread(target=lambda: ends.append(connect(address, hello)))
    thread.start()
    yield ends
    thread.join()


@pytest.mark.parametrize("other_hosts", [False, True])
def test_a_rank_says_what_it_is_and_then_both_sides_talk(tmp_path: Path, other_hosts: bool) -> None:
    with Listener(tmp_path, other_hosts=other_hosts) as listener:
        with _connecting(listener.address, {"rank": 3}) as ranks:
            ours, hello = _accepted(listener)
        assert hello == {"rank": 3}
        with ranks[0] as rank, ours:
            ours.send({"do": "check"})
            assert rank.recv() == {"do": "check"}


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b'{"rank": 0}\n', b"\0\0\0\1x", b"\0", b""])
def test_strangers_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(rendezvous, "_WITHIN", 1)
    with Listener(tmp_path, other_hosts=True) as listener:
        port = int(listener.address.split(":")[1])
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(line)
            assert listener.accept() is None


def test_a_guessed_key_is_refused(tmp_path: Path) -> None:
    refused = []

    def guess(port: int) -> None:
        try:
            Client(("127.0.0.1", port), authkey=b"guess")
        except AuthenticationError as error:
            refused.append(error)

    with Listener(tmp_path, other_hosts=True) as listener:
        stranger = threading.Thread(target=guess, args=(int(listener.address.split(":")[1]),))
        stranger.start()
        assert not any(listener.accept() for _ in range(3))
        stranger.join()
    assert refused


def test_a_rank_tries_the_addresses_one_after_the_other(tmp_path: Path) -> None:
    with Listener(tmp_path, other_hosts=True) as listener:
        address = listener.address.rpartition(":")[0] + ":no-such-host.invalid,127.0.0.1"
        with _connecting(address, {"rank": 1}) as ranks:
            ours, hello = _accepted(listener)
        ours.close()
        ranks[0].close()
        assert hello == {"rank": 1}


def test_a_rank_that_reaches_nobody_names_all_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(OSError, match=rf"port {port} of no-such-host.invalid \(.*\), 127.0.0.1 \(.*refused\)"):
        connect(f"00:{port}:no-such-host.invalid,127.0.0.1", {})


def test_a_folder_with_a_long_name_is_an_error_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="set TMPDIR to a short path"):
        Listener(tmp_path / ("long" * 40))
