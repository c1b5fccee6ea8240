"""Compiles the device code for the GPU at hand, with NVIDIA's run-time compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from xla_shmem import _core

#: Of the calls made here the one that came last, in CUDA 11.2.
_YOUNGEST_CALL = "nvrtcGetNumSupportedArchs"


class KernelError(RuntimeError):
    """The device code cannot be compiled here; the message says why and what to install."""


def compile_kernels(compute_capability: tuple[int, int], nvrtc_candidates: Sequence[str]) -> bytes:
    """Returns an image of xla-shmem's own kernels; arguments and errors as of :func:`compile_source`."""
    return compile_source(_core.kernel_source(), compute_capability, nvrtc_candidates)


def compile_source(source: str, compute_capability: tuple[int, int], nvrtc_candidates: Sequence[str]) -> bytes:
    """Returns an image that the CUDA driver loads.

    Args:
      source: CUDA C++ without includes.
      compute_capability: of the GPU, such as ``(9, 0)``.
      nvrtc_candidates: paths or sonames of libnvrtc, in the order to try.

    Raises:
      KernelError: none of the libraries opens, or the compiler refuses.
    """
    nvrtc = _open(nvrtc_candidates)
    architecture = compute_capability[0] * 10 + compute_capability[1]
    supported = _supported_architectures(nvrtc)
    if architecture in supported:
        return _compile(nvrtc, source, f"sm_{architecture}", "CUBIN")
    older = [candidate for candidate in supported if candidate <= architecture]
    if not older:
        raise KernelError(
            f"this NVRTC compiles for compute capabilities from {min(supported) / 10}, the GPU has {architecture / 10}:"
            " install the nvidia-cuda-nvrtc wheel of an older CUDA"
        )
    # The driver finishes the translation for GPUs younger than the compiler.
    return _compile(nvrtc, source, f"compute_{max(older)}", "PTX")


def _open(candidates: Sequence[str]) -> ctypes.CDLL:
    failures = []
    for candidate in candidates:
        try:
            library = ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(str(error))
            continue
        if hasattr(library, _YOUNGEST_CALL):
            return library
        failures.append(f"{candidate} has no {_YOUNGEST_CALL}")
    raise KernelError(
        f"no NVRTC found ({'; '.join(failures) or 'nothing to try'}): install it with `pip install nvidia-cuda-nvrtc`"
        " (CUDA 13) or `pip install nvidia-cuda-nvrtc-cu12`"
    )


def _supported_architectures(nvrtc: ctypes.CDLL) -> list[int]:
    count = ctypes.c_int()
    _check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    architectures = (ctypes.c_int * count.value)()
    _check(nvrtc, nvrtc.nvrtcGetSupportedArchs(architectures), "nvrtcGetSupportedArchs")
    return list(architectures)


def _compile(nvrtc: ctypes.CDLL, source: str, architecture: str, result: str) -> bytes:
    program = ctypes.c_void_p()
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    _check(nvrtc, code, "nvrtcCreateProgram")
    try:
        flags = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
        code = nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        if code != 0:
            raise KernelError(f"NVRTC refuses kernels.cu for {architecture}: {_text(nvrtc, program, 'ProgramLog')}")
        return _read(nvrtc, program, result)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.raw


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _read(nvrtc, program, what).rstrip(b"\0").decode(errors="replace").strip()


def _check(nvrtc: ctypes.CDLL, code: int, call: str) -> None:
    if code != 0:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise KernelError(f"{call}: {nvrtc.nvrtcGetErrorString(code).decode()}")
