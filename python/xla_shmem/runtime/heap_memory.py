"""The memory of driver heaps (xla_patch/nvshmem/gpu/driver_heap.h), and how the processes of a world share it.

A process tells the others in a note what they import: the bytes of fabric handles, or the address at which it gives
file descriptors to the processes of its host.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xla_shmem import _core
from xla_shmem.runtime.file_exchange import FileExchange, Peer

#: Stands for the multicast object among the PEs of a process, behind them, and the end of a note with an address.
_MULTICAST, _WITH_MULTICAST = -1, "+multicast"

#: Hexadecimal digits of a fabric handle in a note.
_HANDLE_DIGITS = 128

_FILE_BYTES = 4


@dataclass(frozen=True)
class _Given:
    """Files that this process gives to the others of a world."""

    exchange: FileExchange
    files: list[int]

    def close(self) -> None:
        self.exchange.close()
        _close(self.files)


_given: dict[int, _Given] = {}  # by world, until it is joined


def make_heap(
    world: int, own: Sequence[tuple[int, int]], n_pes: int, size: int, sharing: str, multicast: bool = False
) -> str:
    """Makes the memory of this process's PEs of a world, as ``gpu_make_heap`` does.

    Returns:
      What the other processes of the world need to know, without spaces.

    Raises:
      RuntimeError: the GPU path is not open, the driver has no such memory, or there is no Unix socket.
    """
    exchange = FileExchange() if sharing == "files" else None
    try:
        shared = _core.gpu_make_heap(world, own, n_pes, size, sharing, multicast)
    except BaseException:
        if exchange is not None:
            exchange.close()
        raise
    if exchange is None:
        return "".join(handle.hex() for _, handle in shared)
    _given[world] = _Given(exchange, [int.from_bytes(handle, sys.byteorder) for _, handle in shared])
    return exchange.address + (_WITH_MULTICAST if shared[-1][0] == _MULTICAST else "")


def join_heap(world: int, process: int, others: Sequence[tuple[int, Sequence[int], str]], timeout_s: float) -> str:
    """Maps the memory of all PEs of a world. All its processes call this, after :func:`make_heap` in all of them.

    Args:
      world: its number.
      process: number of this process.
      others: process, PEs of the world, and note of each other process.
      timeout_s: seconds to wait for the others.

    Returns:
      "" or why this process cannot have the multicast memory that :func:`make_heap` was asked for.

    Raises:
      RuntimeError: a process has not answered, or the driver does not map its memory.
    """
    if world not in _given:
        return _core.gpu_join_heap(world, [one for other in others for one in _fabric_handles(*other)])
    given = _given.pop(world)
    received: list[int] = []
    try:
        objects = {number: [*pes, *([_MULTICAST] * note.endswith(_WITH_MULTICAST))] for number, pes, note in others}
        peers = [Peer(number, note.removesuffix(_WITH_MULTICAST), len(objects[number])) for number, _, note in others]
        files = given.exchange.exchange(process, given.files, peers, timeout_s)
        received = [file for number in objects for file in files[number]]
        handles = [file.to_bytes(_FILE_BYTES, sys.byteorder) for file in received]
        names = [name for number in objects for name in objects[number]]
        return _core.gpu_join_heap(world, list(zip(names, handles, strict=True)))
    finally:
        given.close()
        _close(received)


def drop_heaps() -> None:
    """Gives the memory of this process back, if its job does not start."""
    while _given:
        _given.popitem()[1].close()
    _core.gpu_drop_heaps()


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


def _fabric_handles(process: int, pes: Sequence[int], note: str) -> list[tuple[int, bytes]]:
    objects = [*pes, *([_MULTICAST] * (len(note) > len(pes) * _HANDLE_DIGITS))]
    if len(note) != len(objects) * _HANDLE_DIGITS:
        raise RuntimeError(f"process {process} announced no fabric handles")
    handles = [note[at : at + _HANDLE_DIGITS] for at in range(0, len(note), _HANDLE_DIGITS)]
    return [(one, bytes.fromhex(handle)) for one, handle in zip(objects, handles, strict=True)]
