"""XLA's messages as protobuf itself decodes them: the schema is taken out of XLA's own shared libraries.

The descriptors are embedded there as serialised FileDescriptorProtos; each starts with field 1, the name.
"""

from __future__ import annotations

import functools
import pathlib
import re
from typing import Any

import jaxlib
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.internal.decoder import _DecodeVarint  # type: ignore[attr-defined]

_WELL_KNOWN = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_START = re.compile(rb"\x0a([\x08-\x7f])((?:xla|tensorflow|google|stream_executor|tsl)/[\w/]+\.proto)")
_DESCRIPTOR_FIELDS = frozenset(range(1, 15)) - {13}
_SYNTAX, _EDITION_TAG = 12, 0x70


def _descriptor_end(data: bytes, start: int) -> int:
    """Returns the end of the FileDescriptorProto at start. It stores no length: fields are read while valid."""
    position = end = start
    try:
        while True:
            tag, after = _DecodeVarint(data, position)
            field, wire = tag >> 3, tag & 7
            if field not in _DESCRIPTOR_FIELDS or wire not in (0, 2) or (field == 1 and position != start):
                return end
            length, after = _DecodeVarint(data, after)
            position = after + length if wire == 2 else after
            end = position
            if field == _SYNTAX:
                return _DecodeVarint(data, end + 1)[1] if data[end] == _EDITION_TAG else end
    except Exception:
        return end


@functools.cache
def _jaxlib() -> pathlib.Path:
    for path in sorted(pathlib.Path(jaxlib.__file__).parent.glob("*.so*"), key=lambda p: -p.stat().st_size):
        if b"xla/service/hlo.proto" in path.read_bytes():
            return path
    raise RuntimeError("no library of jaxlib holds xla/service/hlo.proto")


def message_class(library: pathlib.Path, file: str, message: str) -> Any:
    """The class of a message of a `.proto` file that a shared library was built with.

    Args:
      library: the shared library.
      file: name of the `.proto` file.
      message: full name of the message.

    Raises:
      KeyError: the library does not have it.
    """
    data = library.read_bytes()
    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for match in _START.finditer(data):
        name = match.group(2).decode()
        if len(name) != match.group(1)[0]:
            continue
        descriptor = descriptor_pb2.FileDescriptorProto()
        try:
            descriptor.ParseFromString(data[match.start() : _descriptor_end(data, match.start())])
        except Exception:
            continue
        if name not in found or len(descriptor.message_type) > len(found[name].message_type):
            found[name] = descriptor
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        descriptor = found.get(name)
        if descriptor is None:
            descriptor = descriptor_pb2.FileDescriptorProto()
            descriptor_pool.Default().FindFileByName(name).CopyToProto(descriptor)
        for dependency in descriptor.dependency:
            add(dependency)
        pool.Add(descriptor)

    add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))


@functools.cache
def hlo_module_class() -> Any:
    """The message class of xla.HloModuleProto of the installed jaxlib."""
    return message_class(_jaxlib(), "xla/service/hlo.proto", "xla.HloModuleProto")


def decode(data: bytes) -> Any:
    """The decoded module; raises if protobuf does not accept the bytes."""
    return hlo_module_class().FromString(data)
