"""The collective thunks of a serialised executable of XLA:GPU, by the fields that say how they run.

The executable is a Riegeli file (https://github.com/google/riegeli) of records: protos, in chunks compressed by Snappy.
Field numbers change from release to release, so thunks are decoded by the schema in the plugin's own library.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from compiler_runs import WHEELS
from reference_proto import message_class

_SIGNATURE = b"\x83\xaf\x70\xd1"
_CHUNK_HEADER = 40
#: A file is written in blocks, which begin with a header, also in the middle of a chunk.
_BLOCK, _BLOCK_HEADER = 1 << 16, 24

#: xla.gpu.ThunkProto's fields, without what releases before 0.11 add to the name of an asynchronous one.
_OPS = {
    "all_gather": "all-gather",
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ragged_all_to_all": "ragged-all-to-all",
    "collective_permute": "collective-permute",
    "collective_broadcast": "collective-broadcast",
    "collective_kernel": "collective kernel",
}
_MODES = {"COLLECTIVES_SYMMETRIC_MEMORY": "symmetric", "COLLECTIVES_PEER_MEMORY": "peer"}


class CollectiveThunk(NamedTuple):
    """One thunk.

    Attributes:
      op: as in HLO, or ``"collective kernel"``.
      mode: ``"symmetric"``, ``"peer"`` or ``""``.
      windows: whether its buffers are NCCL's windows.
      copies: whether it may copy between GPUs of one process.
      one_shot: whether it may run by XLA's one-shot kernel.
      space: memory space of its first source and destination; 0 if that of one is the default.
    """

    op: str
    mode: str
    windows: bool
    copies: bool
    one_shot: bool
    space: int


@functools.cache
def _thunk_class() -> Any:
    library = next(WHEELS.glob("jax_plugins/*/xla_cuda_plugin.so"))
    return message_class(library, "xla/backends/gpu/runtime/thunk.proto", "xla.gpu.ThunkProto")


@functools.cache
def _thunk_fields() -> dict[int, str]:
    """The op of each number of a field of ThunkProto."""
    fields = _thunk_class().DESCRIPTOR.fields_by_name
    named = {name.removesuffix("_thunk").removesuffix("_start"): field.number for name, field in fields.items()}
    return {named[name]: op for name, op in _OPS.items() if name in named}


def collective_thunks(executable: bytes) -> list[CollectiveThunk]:
    """Returns the collective thunks of a serialised executable, in its order."""
    found: list[CollectiveThunk] = []
    begin = executable.find(_SIGNATURE)
    for record in _records(executable, begin) if begin >= 0 else ():
        if _SIGNATURE in record:  # a file in the file
            found += collective_thunks(record)
        else:
            _collect(record, found)
    return found


def _collect(proto: bytes, found: list[CollectiveThunk], depth: int = 0) -> None:
    fields = _fields(proto) if depth < 15 else None
    for number, value in fields or ():
        if isinstance(value, bytes):
            # A ThunkProto has its ThunkInfo as field 1, and one thunk.
            if number in _thunk_fields() and fields[0][0] == 1 and len(fields) <= 3 and _fields(value) is not None:
                found.append(_described(_thunk_fields()[number], proto))
            else:
                _collect(value, found, depth + 1)


def _described(op: str, proto: bytes) -> CollectiveThunk:
    thunk = _thunk_class().FromString(proto)
    ((_, own),) = [(field, value) for field, value in thunk.ListFields() if field.name != "thunk_info"]
    known = own.DESCRIPTOR.fields_by_name
    mode = (
        known["collectives_mode"].enum_type.values_by_number[own.collectives_mode].name
        if "collectives_mode" in known
        else ""
    )
    buffers = [] if op == "collective kernel" else own.buffers[:1]
    return CollectiveThunk(
        op,
        _MODES.get(mode, ""),
        own.collective_config.use_symmetric_buffer,
        getattr(own, "p2p_memcpy_enabled", False),
        getattr(own, "one_shot_kernel_enabled", False),
        min((min(one.source_memory_space, one.destination_memory_space) for one in buffers), default=0),
    )


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


def _records(file: bytes, begin: int) -> Iterator[bytes]:
    """Yields the records of the simple chunks of the Riegeli file that begins there."""
    blocks = range(begin, len(file), _BLOCK)
    chunks = b"".join(file[block + _BLOCK_HEADER : block + _BLOCK] for block in blocks)
    at = _CHUNK_HEADER  # behind the signature, a chunk without data
    while at + _CHUNK_HEADER <= len(chunks):
        size = int.from_bytes(chunks[at + 8 : at + 16], "little")
        kind = chunks[at + 24 : at + 25]
        chunk = chunks[at + _CHUNK_HEADER : at + _CHUNK_HEADER + size]
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
