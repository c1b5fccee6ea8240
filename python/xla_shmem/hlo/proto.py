"""The few top-level fields of a serialized HLO proto that the commands need, without a protobuf library.

Field numbers are those of ``xla/service/hlo.proto`` and ``xla/xla_data.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# HloModuleProto
_NAME = 1
_HOST_PROGRAM_SHAPE = 4
_DEVICE_ASSIGNMENT = 15
# HloProto, and HloSnapshot around that
_HLO_MODULE = 1

_START_OPS = (b"all-reduce-start", b"collective-permute-start", b"all-gather-start", b"async-start")


class ProtoError(ValueError):
    """The bytes are not the message they should be."""


def unwrap_module(data: bytes) -> bytes:
    """Returns the ``HloModuleProto`` in data: data itself, or what an ``HloProto`` or ``HloSnapshot`` wraps.

    A module always has its program shape in field 4, which neither wrapper uses. In each wrapper field 1 is
    the next message, in a module it is the name.

    Raises:
      ProtoError: data is truncated, or no such message.
    """
    for _ in range(3):
        fields: dict[int, int | bytes] = {}
        for number, _, value in _fields(data):
            fields.setdefault(number, value)
        if isinstance(fields.get(_HOST_PROGRAM_SHAPE), bytes):
            return data
        inner = fields.get(_HLO_MODULE)
        if not isinstance(inner, bytes):
            break
        data = inner
    raise ProtoError("is not an HLO module")


def module_name(module: bytes) -> str:
    """Returns the name of an ``HloModuleProto``, empty if it has none."""
    for number, _, value in _fields(module):
        if number == _NAME and isinstance(value, bytes):
            return value.decode("utf-8", "replace")
    return ""


def device_grid(module: bytes) -> tuple[int, int] | None:
    """Returns (replicas, partitions) of the module's device assignment, None without one.

    Raises:
      ProtoError: the bytes are not a message.
    """
    for number, _, value in _fields(module):
        if number == _DEVICE_ASSIGNMENT and isinstance(value, bytes):
            counts = {n: v for n, _, v in _fields(value) if isinstance(v, int)}
            return counts.get(1, 0), counts.get(2, 0)
    return None


def assigned_devices(module: bytes) -> list[int]:
    """Returns the device ids of the module's device assignment, sorted; empty without one.

    Raises:
      ProtoError: the bytes are not a message.
    """
    ids: set[int] = set()
    for number, _, assignment in _fields(module):
        if number != _DEVICE_ASSIGNMENT or not isinstance(assignment, bytes):
            continue
        for inner, _, computation in _fields(assignment):
            if inner != 3 or not isinstance(computation, bytes):
                continue
            for _, _, replicas in _fields(computation):
                ids.update([replicas] if isinstance(replicas, int) else _packed(replicas))
    return sorted(ids)


def with_device_grid(module: bytes, replicas: int, partitions: int) -> bytes:
    """Returns the module with the identity device assignment of so many replicas and partitions appended.

    Logical id (replica r, partition p) becomes device r·partitions + p, as XLA numbers them by default.
    """
    assignment = _tag(1, _VARINT) + _varint(replicas) + _tag(2, _VARINT) + _varint(partitions)
    for partition in range(partitions):
        ids = b"".join(_varint(replica * partitions + partition) for replica in range(replicas))
        assignment += _submessage(3, _submessage(1, ids))
    return module + _submessage(_DEVICE_ASSIGNMENT, assignment)


def is_gpu_form(module: bytes) -> bool:
    """Tells whether collectives look as XLA:GPU compiles them: start/done pairs, or its backend config."""
    # Opcode is field 2 of an instruction; a name or an operand cannot have the same tag and length before it.
    starts = (b"\x12" + bytes([len(op)]) + op for op in _START_OPS)
    return b'"collective_backend_config"' in module or any(start in module for start in starts)


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yields (field number, wire type, value) of a message; raises ProtoError."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise ProtoError("is not an HLO proto")
        value: int | bytes
        if wire_type == _VARINT:
            value, position = _read_varint(data, position)
        elif wire_type in (_FIXED64, _FIXED32, _BYTES):
            size = 8 if wire_type == _FIXED64 else 4
            if wire_type == _BYTES:
                size, position = _read_varint(data, position)
            if position + size > len(data):
                raise ProtoError(f"is not an HLO proto, or is truncated at byte {len(data)}")
            value = data[position : position + size]
            position += size
        else:
            raise ProtoError("is not an HLO proto")
        yield number, wire_type, value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ProtoError(f"is not an HLO proto, or is truncated at byte {len(data)}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtoError("is not an HLO proto")


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _read_varint(data, position)
        yield value


def _varint(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _submessage(number: int, data: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(data)) + data
