"""The notes with which processes share the memory of their driver heaps. The heaps are stood in for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from xla_shmem.runtime import heap_memory

Shared = list[tuple[int, bytes]]

MULTICAST = -1


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> dict[int, Shared]:
    """What each world has imported."""
    imported: dict[int, Shared] = {}

    def join(world: int, objects: Sequence[tuple[int, bytes]]) -> str:
        imported[world] = list(objects)
        return "no reason" if world else ""

    monkeypatch.setattr("xla_shmem._core.gpu_join_heap", join)
    monkeypatch.setattr("xla_shmem._core.gpu_drop_heaps", imported.clear)
    return imported


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str, Shared], str]:
    """Makes the heap of a world, which shares these objects; returns the note."""

    def made(world: int, sharing: str, shared: Shared) -> str:
        monkeypatch.setattr("xla_shmem._core.gpu_make_heap", lambda *_: shared)
        return heap_memory.make_heap(world, [(0, 0)], 3, 1, sharing, True)

    return made


def _files(*objects: int) -> Shared:
    return [(one, os.memfd_create(f"object {one}").to_bytes(4, sys.byteorder)) for one in objects]


def _name_of(handle: bytes) -> str:
    return os.readlink(f"/proc/self/fd/{int.from_bytes(handle, sys.byteorder)}").removeprefix("/memfd:").split(" (")[0]


def test_a_process_alone_tells_nothing(make: Callable[..., str], joined: dict[int, Shared]) -> None:
    assert make(0, "none", []) == ""
    assert heap_memory.join_heap(0, 0, [], 1) == ""
    assert joined == {0: []}


def test_notes_of_a_fabric_hold_the_handles(make: Callable[..., str], joined: dict[int, Shared]) -> None:
    handles = [bytes([number]) * 64 for number in range(4)]
    two = make(1, "fabric", [(0, handles[0]), (2, handles[2]), (MULTICAST, handles[3])])
    one = make(1, "fabric", [(1, handles[1])])
    assert heap_memory.join_heap(1, 5, [(0, [0, 2], two), (3, [1], one)], 1) == "no reason"
    assert joined[1] == [(0, handles[0]), (2, handles[2]), (MULTICAST, handles[3]), (1, handles[1])]
    for note in ("", two[:-2], one[:-2]):
        with pytest.raises(RuntimeError, match=r"^process 3 announced no fabric handles$"):
            heap_memory.join_heap(1, 5, [(3, [1], note)], 1)


def test_processes_of_a_host_give_files_and_close_them(
    make: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(os.listdir("/proc/self/fd"))
    names: dict[int, list[tuple[int, str]]] = {}

    def join(world: int, objects: Sequence[tuple[int, bytes]]) -> str:
        names[world] = [(one, _name_of(handle)) for one, handle in objects]
        return ""

    monkeypatch.setattr("xla_shmem._core.gpu_join_heap", join)
    # Two worlds of this process stand for two processes of one world.
    two = make(0, "files", _files(0, 2, MULTICAST))
    one = make(1, "files", _files(1))
    assert two.endswith("+multicast")
    assert "+" not in one
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(heap_memory.join_heap, 1, 1, [(0, [0, 2], two)], 20)
        assert heap_memory.join_heap(0, 0, [(1, [1], one)], 20) == ""
        assert other.result() == ""
    assert names == {0: [(1, "object 1")], 1: [(0, "object 0"), (2, "object 2"), (MULTICAST, "object -1")]}
    assert set(os.listdir("/proc/self/fd")) == before


def test_files_are_closed_if_the_job_does_not_start(make: Callable[..., str], joined: dict[int, Shared]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    make(0, "files", _files(0))
    make(1, "files", _files(0))
    heap_memory.drop_heaps()
    assert set(os.listdir("/proc/self/fd")) == before
    assert heap_memory.join_heap(0, 0, [], 1) == ""  # nothing is left of the world
    assert joined[0] == []


def test_nothing_listens_if_the_driver_has_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Shared:
        raise RuntimeError("no memory")

    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("xla_shmem._core.gpu_make_heap", refuse)
    with pytest.raises(RuntimeError, match="no memory") as failure:
        heap_memory.make_heap(0, [(0, 0)], 2, 1, "files", True)
    assert set(os.listdir("/proc/self/fd")) == before
    assert failure.tb is not None  # it keeps what the call had


def test_files_are_closed_if_a_process_does_not_answer(make: Callable[..., str], joined: dict[int, Shared]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    make(0, "files", _files(0))
    with pytest.raises(RuntimeError, match="Connection refused"):
        heap_memory.join_heap(0, 0, [(1, [1], "xla-shmem-nobody")], 0.05)
    assert set(os.listdir("/proc/self/fd")) == before
    assert joined == {}
