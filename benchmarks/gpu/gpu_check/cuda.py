"""The CUDA driver calls of the check, by ctypes. Memory, streams and events are plain integers."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

_LIBRARY = "libcuda.so.1"
_STREAM_NON_BLOCKING = 1
_CAPTURE_RELAXED = 2
_HOST_PORTABLE_AND_MAPPED = 3
_WAIT_UNTIL_AT_LEAST = 0
_COMPUTE_MAJOR, _COMPUTE_MINOR, _MULTIPROCESSORS = 75, 76, 16


class CudaError(RuntimeError):
    """A driver call has failed; the message names the call and the error."""


class Cuda:
    """One GPU in its primary context, which XLA and xla-shmem use too; current on the thread that makes this object."""

    def __init__(self, ordinal: int, library: str = _LIBRARY) -> None:
        self._cuda = ctypes.CDLL(library)
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), ordinal)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        self._device = device

    def __call__(self, name: str, *arguments: Any) -> None:
        """Calls the driver.

        Raises:
          CudaError: the call does not return success.
        """
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(f"{name} failed with {text.value.decode() if text.value else code}")

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(value), number, self._device)
        return value.value

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor."""
        return self._attribute(_COMPUTE_MAJOR), self._attribute(_COMPUTE_MINOR)

    @property
    def multiprocessors(self) -> int:
        """The number of the GPU's multiprocessors."""
        return self._attribute(_MULTIPROCESSORS)

    def allocate(self, size: int) -> int:
        """Allocates device memory, which is kept until the process ends."""
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    @functools.cached_property
    def _upload_stream(self) -> int:
        return self.stream()

    def upload(self, values: np.ndarray, address: int | None = None) -> int:
        """Copies an array to the GPU, to new memory if `address` is None; waits for the copy."""
        values = np.ascontiguousarray(values)
        address = self.allocate(max(values.nbytes, 16)) if address is None else address
        # On a stream of its own: a call without one returns when pageable memory has been staged, and streams that do
        # not block would read before the copy has run.
        self.copy(address, values.ctypes.data, values.nbytes, self._upload_stream)
        self.synchronize(self._upload_stream)
        return address

    def download(self, address: int, shape: Sequence[int] | int, dtype: Any) -> np.ndarray:
        """Copies an array from the GPU. Does not wait for streams: synchronize first."""
        values = np.empty(shape, dtype)
        self(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(values.ctypes.data),
            ctypes.c_uint64(address),
            ctypes.c_size_t(values.nbytes),
        )
        return values

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        """Enqueues a copy between device addresses."""
        self(
            "cuMemcpyAsync",
            ctypes.c_uint64(destination),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def fill(self, address: int, value: int, size: int, stream: int) -> None:
        """Enqueues a fill of bytes."""
        self(
            "cuMemsetD8Async",
            ctypes.c_uint64(address),
            ctypes.c_ubyte(value),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def stream(self) -> int:
        """A new stream."""
        stream = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(stream), _STREAM_NON_BLOCKING)
        return stream.value or 0

    def synchronize(self, stream: int) -> None:
        """Waits until a stream has run everything."""
        self("cuStreamSynchronize", ctypes.c_void_p(stream))

    def event(self, stream: int) -> int:
        """Records a new event behind everything that the stream has."""
        event = ctypes.c_void_p()
        self("cuEventCreate", ctypes.byref(event), 0)
        self("cuEventRecord", event, ctypes.c_void_p(stream))
        return event.value or 0

    def seconds(self, begin: int, end: int) -> float:
        """Time between two events that have been reached."""
        milliseconds = ctypes.c_float()
        name = "cuEventElapsedTime_v2" if hasattr(self._cuda, "cuEventElapsedTime_v2") else "cuEventElapsedTime"
        self(name, ctypes.byref(milliseconds), ctypes.c_void_p(begin), ctypes.c_void_p(end))
        return milliseconds.value / 1e3

    def gate(self) -> Gate:
        """A new gate, open."""
        return Gate(self)

    def load(self, image: bytes) -> int:
        """A module from a cubin or PTX."""
        module = ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        return module.value or 0

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        function = ctypes.c_void_p()
        self("cuModuleGetFunction", ctypes.byref(function), ctypes.c_void_p(module), name.encode())
        return function.value or 0

    def launch(self, function: int, grid: int, block: int, stream: int, *parameters: Any) -> None:
        """Enqueues a kernel; `parameters` are ctypes values."""
        pointers = (ctypes.c_void_p * max(len(parameters), 1))(
            *[ctypes.cast(ctypes.pointer(parameter), ctypes.c_void_p) for parameter in parameters]
        )
        sizes = (grid, 1, 1, block, 1, 1, 0)
        self("cuLaunchKernel", ctypes.c_void_p(function), *sizes, ctypes.c_void_p(stream), pointers, None)

    @contextmanager
    def capture(self, stream: int) -> Iterator[Graph]:
        """Captures the commands enqueued on the stream into a graph, which can be launched after the block."""
        graph = Graph(self)
        self("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), _CAPTURE_RELAXED)
        try:
            yield graph
        finally:
            captured = ctypes.c_void_p()
            self("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(captured))
        graph.instantiate(captured)


class Gate:
    """A word of host memory at which streams wait, without a kernel, until the host opens it."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        memory = ctypes.c_void_p()
        cuda("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(8), _HOST_PORTABLE_AND_MAPPED)
        self._address = memory.value or 0
        self._word = ctypes.c_uint32.from_address(self._address)
        self._word.value = self._shut = 0

    def shut(self, stream: int) -> None:
        """Lets the stream wait here."""
        self._shut += 1
        word, value = ctypes.c_uint64(self._address), ctypes.c_uint32(self._shut)
        self._cuda("cuStreamWaitValue32_v2", ctypes.c_void_p(stream), word, value, _WAIT_UNTIL_AT_LEAST)

    def open(self) -> None:
        """Lets all streams go on."""
        self._word.value = self._shut


class Graph:
    """A captured graph."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._executable = ctypes.c_void_p()

    def instantiate(self, captured: ctypes.c_void_p) -> None:
        """Makes it launchable."""
        self._cuda("cuGraphInstantiateWithFlags", ctypes.byref(self._executable), captured, ctypes.c_uint64(0))

    def launch(self, stream: int) -> None:
        """Enqueues one run of it."""
        self._cuda("cuGraphLaunch", self._executable, ctypes.c_void_p(stream))
