"""Processes of a host, which are threads here, give each other files."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from xla_shmem.runtime.file_exchange import FileExchange, Peer


def _open_files() -> list[str]:
    paths = (f"/proc/self/fd/{file}" for file in os.listdir("/proc/self/fd"))
    return sorted(os.readlink(path) for path in paths if os.path.lexists(path))


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    before = _open_files()
    yield
    assert _open_files() == before


def _is_same(one: int, other: int) -> bool:
    return os.path.samestat(os.fstat(one), os.fstat(other))


def test_each_gets_the_files_of_all_others_in_their_order() -> None:
    gives = [2, 1, 3]
    own = [[os.memfd_create(f"{process} {file}") for file in range(gives[process])] for process in range(3)]
    ends = [FileExchange() for _ in own]
    peers = [Peer(process, end.address, gives[process]) for process, end in enumerate(ends)]

    def exchange(process: int) -> dict[int, list[int]]:
        others = [peer for peer in peers if peer.process != process]
        with closing(ends[process]):
            return ends[process].exchange(process, own[process], others, 20)

    with ThreadPoolExecutor(3) as threads:
        received = list(threads.map(exchange, range(3)))
    for process, files in enumerate(received):
        assert sorted(files) == [other for other in range(3) if other != process]
        for other, theirs in files.items():
            assert len(theirs) == gives[other]
            for given, got in zip(own[other], theirs, strict=True):
                assert got != given
                assert _is_same(got, given)
                assert not os.get_inheritable(got)
                os.close(got)
    for files_of_process in own:
        for file in files_of_process:
            os.close(file)


def test_a_process_that_does_not_answer_is_named_in_time() -> None:
    with closing(FileExchange()) as own, closing(FileExchange()) as silent:
        others = [Peer(3, silent.address, 1)]
        with pytest.raises(
            RuntimeError, match=r"^only 0 of 1 processes of this host have asked for memory of process 0$"
        ):
            own.exchange(0, [], others, 0.05)
        silent.close()
        with pytest.raises(
            RuntimeError, match=r"^process 3 of this host cannot be reached by a Unix socket \(Connection refused\)"
        ):
            own.exchange(0, [], others, 0.05)


@pytest.mark.parametrize(("number", "given", "why"), [(1, 0, "it sent 0 of 2"), (1, 1, "1 of 2"), (7, 2, "0 of 2")])
def test_another_number_of_files_or_the_message_of_another_process_is_an_error(
    number: int, given: int, why: str
) -> None:
    files = [os.memfd_create("file") for _ in range(given)]
    with closing(FileExchange()) as own, closing(FileExchange()) as other, ThreadPoolExecutor(1) as thread:
        sent = thread.submit(other.exchange, number, files, [Peer(0, own.address, 0)], 20)
        with pytest.raises(RuntimeError, match=rf"^process 1 of this host .*{why} file descriptors\)"):
            own.exchange(0, [], [Peer(1, other.address, 2)], 20)
        assert sent.result() == {0: []}
    for file in files:
        os.close(file)


def test_a_process_that_has_ended_is_an_error() -> None:
    with closing(FileExchange()) as own, closing(FileExchange()) as peer:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as ended:
            ended.connect(f"\0{own.address}")
        with pytest.raises(RuntimeError, match=r"^files could not be sent: Broken pipe$"):
            own.exchange(0, [], [Peer(1, peer.address, 1)], 20)


def test_a_connection_that_cannot_be_accepted_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with closing(FileExchange()) as own, closing(FileExchange()) as peer:
        monkeypatch.setattr(socket.socket, "accept", refuse)
        with pytest.raises(RuntimeError, match=r"^files could not be sent: Too many open files$"):
            own.exchange(0, [], [Peer(1, peer.address, 1)], 20)


def test_too_many_files_are_refused() -> None:
    with closing(FileExchange()) as own, pytest.raises(RuntimeError, match=r"^65 GPUs in one process are too many$"):
        own.exchange(0, [0] * 65, [], 1)
