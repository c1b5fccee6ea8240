"""The collective thunks of a serialised executable of XLA:GPU, by the fields that say how they run.

The executable is a Riegeli file (https://github.com/google/riegeli) of records: protos, in chunks compressed by Snappy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_SIGNATURE = b"\x83\xaf\x70\xd1"
_CHUNK_HEADER = 40

# xla.gpu.ThunkProto: the field of each thunk, and in it those of its buffers and, if it has them, mode and copies.
_THUNKS = {
    38: ("all-gather", 3, 2, 4, None),
    39: ("all-reduce", 3, 2, None, None),
    40: ("reduce-scatter", 3, 2, None, None),
    41: ("all-to-all", 3, 2, None, 5),
    42: ("ragged-all-to-all", 3, 2, 12, None),
    43: ("collective-permute", 2, 3, 8, None),
    46: ("collective-broadcast", 2, 3, None, None),
    59: ("collective kernel", None, None, None, None),
}
_MODES = {2: "symmetric", 3: "peer"}
_CONFIG_USES_WINDOWS, _SOURCE_SPACE, _DESTINATION_SPACE = 4, 4, 5


class CollectiveThunk(NamedTuple):
    """One thunk.

    Attributes:
      op: as in HLO, or ``"collective kernel"``.
      mode: ``"symmetric"``, ``"peer"`` or ``""``.
      windows: whether its buffers are NCCL's windows.
      copies: whether it may copy between GPUs of one process.
      space: memory space of its first source and destination; 0 if that of one is the default.
    """

    op: str
    mode: str
    windows: bool
    copies: bool
    space: int


def collective_thunks(executable: bytes) -> list[CollectiveThunk]:
    """Returns the collective thunks of a serialised executable, in its order."""
    found: list[CollectiveThunk] = []
    at = executable.find(_SIGNATURE)
    while at >= 0:
        for record in _records(executable, at):
            _collect(record, found)
        at = executable.find(_SIGNATURE, at + 1)
    return found


def _collect(proto: bytes, found: list[CollectiveThunk], depth: int = 0) -> None:
    fields = _fields(proto) if depth < 15 else None
    for number, value in fields or ():
        if isinstance(value, bytes):
            # A ThunkProto has its ThunkInfo as field 1, and one thunk.
            thunk = _fields(value) if number in _THUNKS and fields[0][0] == 1 and len(fields) <= 3 else None
            if thunk is not None:
                found.append(_described(number, thunk))
            else:
                _collect(value, found, depth + 1)


def _described(number: int, fields: list[tuple[int, int | bytes]]) -> CollectiveThunk:
    op, buffers, config, mode, copies = _THUNKS[number]
    values = dict(reversed(fields))  # of a repeated field the first
    of_config = dict(_fields(_bytes(values.get(config))) or ())
    of_buffer = dict(_fields(_bytes(values.get(buffers))) or ())
    return CollectiveThunk(
        op,
        _MODES.get(int(values.get(mode, 0)), "") if mode else "",
        bool(of_config.get(_CONFIG_USES_WINDOWS)),
        bool(copies and values.get(copies)),
        min(int(of_buffer.get(space, 0)) for space in (_SOURCE_SPACE, _DESTINATION_SPACE)),
    )


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def _fields(proto: bytes) -> list[tuple[int, int | bytes]] | None:
    """Returns the fields of a proto; None if the bytes are none."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    try:
        while at < len(proto):
            key, at = _varint(proto, at)
            match key & 7:
                case 0:
                    value: int | bytes
                    value, at = _varint(proto, at)
                case 1 | 5 as kind:
                    size = 8 if kind == 1 else 4
                    value, at = proto[at : at + size], at + size
                case 2:
                    size, at = _varint(proto, at)
                    value, at = proto[at : at + size], at + size
                case _:
                    return None
            if at > len(proto) or key >> 3 == 0:
                return None
            found.append((key >> 3, value))
    except IndexError:
        return None
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _records(file: bytes, at: int) -> Iterator[bytes]:
    """Yields the records of the simple chunks of the Riegeli file that begins there."""
    at += 64  # the signature's block
    while at + _CHUNK_HEADER <= len(file):
        size = int.from_bytes(file[at + 8 : at + 16], "little")
        kind = file[at + 24 : at + 25]
        chunk = file[at + _CHUNK_HEADER : at + _CHUNK_HEADER + size]
        if len(chunk) < size:
            return
        if kind == b"r":
            yield from _split(chunk)
        at += _CHUNK_HEADER + size


def _split(chunk: bytes) -> Iterator[bytes]:
    """Yields the records of a chunk: their sizes come first, then their bytes."""
    length, at = _varint(chunk, 1)
    sizes = _decompressed(chunk[:1], chunk[at : at + length])
    values = _decompressed(chunk[:1], chunk[at + length :])
    begin = at = 0
    while at < len(sizes):
        size, at = _varint(sizes, at)
        yield values[begin : begin + size]
        begin += size


def _decompressed(compression: bytes, data: bytes) -> bytes:
    match compression:
        case b"\0":
            return data
        case b"s":
            return _unsnapped(data[_varint(data, 0)[1] :])  # behind its size
        case other:
            raise ValueError(f"chunks compressed by {other!r}")


def _unsnapped(data: bytes) -> bytes:
    size, at = _varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:  # a literal
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at : at + extra], "little")
                at += extra
            out += data[at : at + length + 1]
            at += length + 1
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at]
            at += 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
            at += width
        for _ in range(length):  # what is copied may be what this copy has written
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)
