"""What XLA:GPU asks our handlers at their registration: their release of the FFI, and whether graphs may hold them."""

from __future__ import annotations

import ctypes
from typing import Any

from xla_shmem import _core

# The FFI of jaxlib 0.10.2, the oldest we support: it refuses handlers built against a newer one.
_OLDEST_FFI = (0, 3)

_OPS = (
    *("all_gather", "all_reduce", "all_to_all"),
    *("collective_broadcast", "collective_permute", "ragged_all_to_all", "reduce_scatter"),
)
#: Of divided collectives.
_PARTS = ("reduce_scatter_parts", "all_gather_parts", "all_to_all_parts", "collective_permute_parts")

_METADATA_EXTENSION = 1  # XLA_FFI_Extension_Metadata
_COMMAND_BUFFER_COMPATIBLE = 1 << 0  # XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE


class _Version(ctypes.Structure):  # XLA_FFI_Api_Version
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class _Metadata(ctypes.Structure):  # XLA_FFI_Metadata
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("version", _Version),
        ("traits", ctypes.c_uint32),
        ("state_type", ctypes.c_int64),
    )


class _Extension(ctypes.Structure):  # XLA_FFI_Metadata_Extension
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(_Metadata)),
    )


class _Api(ctypes.Structure):  # XLA_FFI_Api: no call is made; an error that a handler wants to make ends the process
    _fields_ = (("struct_size", ctypes.c_size_t), ("rest", ctypes.c_void_p * 64))


class _CallFrame(ctypes.Structure):  # XLA_FFI_CallFrame, whose size is compared
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("rest", ctypes.c_void_p * 18),
    )


def _metadata(capsule: Any) -> _Metadata:
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(pointer(capsule, name(capsule)))
    metadata = _Metadata(struct_size=ctypes.sizeof(_Metadata))
    extension = _Extension(ctypes.sizeof(_Extension), _METADATA_EXTENSION, None, ctypes.pointer(metadata))
    api = _Api(ctypes.sizeof(_Api))
    frame = _CallFrame(ctypes.sizeof(_CallFrame), ctypes.pointer(extension), ctypes.pointer(api))
    assert handler(ctypes.addressof(frame)) is None
    return metadata


def test_only_whole_operations_may_be_captured_into_graphs_and_not_those_in_loops() -> None:
    capturable = {
        target
        for target, stages in _core.cuda_handlers().items()
        if _metadata(stages["execute"]).traits & _COMMAND_BUFFER_COMPATIBLE
    }
    assert capturable == {f"xla_shmem.{op}" for op in (*_OPS, *_PARTS)}


def test_all_handlers_are_built_for_the_oldest_ffi() -> None:
    handlers = _core.cuda_handlers()
    assert len(handlers) == 4 * len(_OPS) + 2 * len(_PARTS) + 1
    for target, stages in handlers.items():
        for stage, handler in stages.items():
            version = _metadata(handler).version
            assert (version.major, version.minor) == _OLDEST_FFI, (target, stage)
