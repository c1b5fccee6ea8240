"""The GPUs that CUDA shows this process, in CUDA's order: the order of JAX's local device ids.

It differs from NVML's order because of ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``, so libcuda itself is asked.
This initialises the driver in this process but makes no context.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

LIBRARY = "libcuda.so.1"

_CUDA_ERROR_NO_DEVICE = 100
_BUS_ID_BYTES = 16


@dataclass(frozen=True)
class VisibleGpus:
    """The answer of libcuda.

    Attributes:
      bus_ids: PCI addresses by CUDA ordinal; compare them after :func:`same_bus_id_form`.
      error: why the GPUs are unknown, "" otherwise. No error and no bus ids: the driver works and shows no GPU.
    """

    bus_ids: tuple[str, ...]
    error: str


def visible_gpus(library: str = LIBRARY) -> VisibleGpus:
    """Returns the GPUs this process may use. Never raises."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError as error:
        return VisibleGpus((), f"cannot open {library}: {error}")
    code = cuda.cuInit(0)
    if code == _CUDA_ERROR_NO_DEVICE:
        return VisibleGpus((), "")
    if code != 0:
        return VisibleGpus((), f"cuInit: {_error_name(cuda, code)}")
    count = ctypes.c_int(0)
    if (code := cuda.cuDeviceGetCount(ctypes.byref(count))) != 0:
        return VisibleGpus((), f"cuDeviceGetCount: {_error_name(cuda, code)}")
    bus_ids = []
    for ordinal in range(count.value):
        device, text = ctypes.c_int(0), ctypes.create_string_buffer(_BUS_ID_BYTES)
        code = cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        code = code or cuda.cuDeviceGetPCIBusId(text, _BUS_ID_BYTES, device)
        if code != 0:
            return VisibleGpus((), f"GPU {ordinal}: {_error_name(cuda, code)}")
        bus_ids.append(text.value.decode())
    return VisibleGpus(tuple(bus_ids), "")


def same_bus_id_form(bus_id: str) -> str:
    """Returns a bus id in upper case and with 4 digits of domain: NVML writes 8, CUDA 4."""
    domain, rest = bus_id.split(":", 1)
    return f"{int(domain, 16):04X}:{rest.upper()}"


def _error_name(cuda: ctypes.CDLL, code: int) -> str:
    name = ctypes.c_char_p()
    known = cuda.cuGetErrorName(code, ctypes.byref(name)) == 0 and name.value is not None
    return name.value.decode() if known and name.value else f"CUDA error {code}"
