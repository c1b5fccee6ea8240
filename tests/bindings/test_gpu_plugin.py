"""A GPU plugin that lacks an extension is an error that names it, and the process goes on without the plugin."""

from __future__ import annotations

import ctypes
import logging
from typing import Any

import pytest

from xla_shmem import _core, options
from xla_shmem.runtime import compiler_pass, gpu_platform
from xla_shmem.runtime.compiler_pass import CompilerPass

MESSAGE = (
    "the GPU plugin (PJRT API 0.95) has no XlaTransform extension; install jax, jaxlib and the jax-cuda plugin of "
    "release 0.10.2 or newer"
)


class Extension(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p))


class Api(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.POINTER(Extension)),
        ("version_size", ctypes.c_size_t),
        ("version_extensions", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("functions", ctypes.c_void_p * 2),
    )


@pytest.fixture
def old_plugin() -> Any:
    """Capsule of a PJRT_Api whose only extension is a profiler."""
    profiler = Extension(ctypes.sizeof(Extension), 1, None)
    api = Api(ctypes.sizeof(Api), ctypes.pointer(profiler), 24, None, 0, 95)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    # A fixture that yields: the structs live until the test is over.
    yield capsule(ctypes.addressof(api), b"pjrt_c_api", None)  # noqa: PT022


def test_the_message_says_what_is_missing_and_what_to_install(old_plugin: Any) -> None:
    with pytest.raises(RuntimeError) as error:
        _core.GpuPlugin(old_plugin)
    assert str(error.value) == MESSAGE


def test_the_process_goes_on_without_the_plugin(
    old_plugin: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpu_platform, "is_gpu_plugin", lambda c_api: c_api is old_plugin)

    class NoJob:
        process = 0

    passes = CompilerPass(NoJob(), None, options.resolve({}, {}))  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR, logger=compiler_pass.__name__):
        passes._add_plugin(old_plugin)
        passes._add_plugin(object())  # another plugin, which is ignored
    assert caplog.messages == [f"xla_shmem: {MESSAGE}; all collectives on GPUs stay on the default backend"]
