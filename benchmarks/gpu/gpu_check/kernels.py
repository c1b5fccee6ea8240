"""Compares every reduction of the device code on the GPU with NumPy."""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from gpu_check import device_code, records
from gpu_check.cuda import Cuda
from xla_shmem import _core

_INTEGERS = {f"{sign}{bits}": np.dtype(f"{kind}{bits // 8}") for sign, kind in ("si", "uu") for bits in (8, 16, 32, 64)}
_FLOATS = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3b11fnuz": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "f8e3m4": np.dtype(ml_dtypes.float8_e3m4),
}
_COMPLEX = {"c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128)}
TYPES = _INTEGERS | _FLOATS | _COMPLEX

#: Inputs and elements: less than a pack of 16 bytes, packs and a tail, many passes of the block.
SHAPES = ((1, 3), (2, 1), (3, 37), (8, 4099), (2, 600_011))
_SMALL = ((2, 1), (3, 37), (8, 4099))
_MAX_INPUTS = 128
_BLOCK = 256

#: A kernel that only reduces, behind the device code.
SOURCE = """
namespace xla_shmem::gpu {
struct CheckArguments {
  const char* inputs[kMaxMembers];
  char* output;
  Word bytes;
  int count, elements, kind;
};
extern "C" __global__ void check_reduction(const CheckArguments arguments) {
  __shared__ const char* inputs[kMaxMembers];
  for (int i = threadIdx.x; i < arguments.count; i += blockDim.x) inputs[i] = arguments.inputs[i];
  __syncthreads();
  Reduce(static_cast<Elements>(arguments.elements), arguments.kind, inputs, arguments.count, arguments.bytes,
         arguments.output);
}
}  // namespace xla_shmem::gpu
"""


class _Arguments(ctypes.Structure):
    """CheckArguments."""

    _fields_ = (
        ("inputs", ctypes.c_uint64 * _MAX_INPUTS),
        ("output", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("count", ctypes.c_int),
        ("elements", ctypes.c_int),
        ("kind", ctypes.c_int),
    )


def reductions() -> Iterator[tuple[str, str]]:
    """Yields the types and kinds."""
    for name in TYPES:
        kinds = ("sum", "prod") if name in _COMPLEX else ("sum", "prod", "min", "max")
        for kind in (*kinds, *(("and", "or", "xor") if name in _INTEGERS else ())):
            yield name, kind


def inputs_of(dtype: np.dtype, count: int, elements: int) -> np.ndarray:
    """Random values, for floats of all sizes and with NaN, infinities, both zeros and denormals among them."""
    random = np.random.default_rng((count, elements))
    if dtype.kind in "iu":
        return np.frombuffer(random.bytes(count * elements * dtype.itemsize), dtype).reshape(count, elements)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return random.standard_normal((count, 2 * elements)).astype(part).view(dtype)
    values = random.standard_normal((count, elements)) * 2.0 ** random.integers(-8, 8, (count, elements))
    with np.errstate(all="ignore"):
        values = values.astype(dtype)
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, ml_dtypes.finfo(dtype).smallest_subnormal])
        special = special.astype(dtype)
    where = random.random(values.shape) < 0.05
    values[where] = special[random.integers(0, len(special), int(where.sum()))]
    return values


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "c":
        return a * b
    # NumPy may fuse multiplications with additions.
    result = np.empty_like(a)
    result.real = a.real * b.real - a.imag * b.imag
    result.imag = a.real * b.imag + a.imag * b.real
    return result


def expected(kind: str, inputs: np.ndarray) -> np.ndarray:
    """Returns the specified result: reduced in order, narrow floats in f32 with one rounding."""
    narrow = inputs.dtype.itemsize <= 2 and inputs.dtype.kind not in "iu"
    wide = inputs.astype(np.float32) if narrow else inputs
    total = wide[0]
    bitwise = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    with np.errstate(all="ignore"):
        for value in wide[1:]:
            if kind in bitwise:
                total = bitwise[kind](total, value)
            elif kind == "sum":
                total = (total + value).astype(wide.dtype)
            elif kind == "prod":
                total = _product(total, value).astype(wide.dtype)
            else:
                better = total < value if kind == "min" else total > value
                total = np.where((total != total) | better, total, value)
        return total.astype(inputs.dtype)


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """Returns where two results differ in any bit, except payloads of NaNs; "" if they do not."""
    if got.dtype.kind == "c":
        part = np.dtype(f"f{got.dtype.itemsize // 2}")
        return difference(got.view(part), want.view(part))
    bits = np.dtype(f"u{got.dtype.itemsize}")
    same = (got.view(bits) == want.view(bits)) | ((got != got) & (want != want))
    if same.all():
        return ""
    at = int(np.flatnonzero(~same)[0])
    return f"{int((~same).sum())} of {len(got)} elements differ, first {at}: {got[at]} instead of {want[at]}"


def reduce(cuda: Cuda, function: int, stream: int, inputs: np.ndarray, reduction: tuple[int, int]) -> np.ndarray:
    """Reduces the rows of `inputs`."""
    elements, kind = reduction
    arguments = _Arguments(bytes=inputs[0].nbytes, count=len(inputs), elements=elements, kind=kind)
    for number, values in enumerate(inputs):
        arguments.inputs[number] = cuda.upload(values)
    arguments.output = cuda.allocate(max(inputs[0].nbytes, 16))
    cuda.launch(function, 1, _BLOCK, stream, arguments)
    cuda.synchronize(stream)
    return cuda.download(arguments.output, inputs.shape[1], inputs.dtype)


def check_all(cuda: Cuda, module: int, small: bool) -> None:
    """Runs every reduction on every shape, with a check for each reduction."""
    stream = cuda.stream()
    function = cuda.function(module, "check_reduction")
    for name, kind in reductions():
        # Only sums of these types have a way of their own for many elements.
        is_fast = kind == "sum" and name in ("f32", "f16", "bf16")
        problems = []
        for count, elements in SHAPES if is_fast and not small else _SMALL:
            inputs = inputs_of(TYPES[name], count, elements)
            got = reduce(cuda, function, stream, inputs, _core.gpu_kernel_reduction(kind, name))
            problem = difference(got, expected(kind, inputs))
            if problem:
                problems.append(f"{count} inputs: {problem}")
        records.check(f"{kind} of {name}", not problems, "; ".join(problems))


def main() -> None:
    """Compiles, loads and checks the kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small shapes only, for compute-sanitizer")
    arguments = parser.parse_args()
    cuda = Cuda(0)
    began = time.monotonic()
    image = device_code.with_source(cuda.compute_capability, SOURCE)
    took = f"{time.monotonic() - began:.2f} s"
    records.fact("kernels compiled in", records.NOT_MEASURED if records.emulated() else took)
    check_all(cuda, cuda.load(image), arguments.small)


if __name__ == "__main__":
    main()
