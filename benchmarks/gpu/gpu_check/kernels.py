"""Compares the 48 reduction kernels on the GPU with NumPy; launches them as nvshmem/gpu/device.cc does."""

from __future__ import annotations

import argparse
import ctypes
import itertools
import time
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from gpu_check import device_code, records
from gpu_check.cuda import Cuda

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}
KINDS = ("sum", "prod", "min", "max")

#: Inputs and elements: less than a pack of 16 bytes, packs and a tail, more than one pass of the grid.
SHAPES = ((1, 3), (2, 1), (3, 37), (8, 4099), (2, 600_011))
_SMALL = ((2, 1), (3, 37), (8, 4099))
_MAX_INPUTS = 128
_BLOCK = 256
_MAX_BLOCKS = 32


class _Arguments(ctypes.Structure):
    """ReduceArguments of kernels.cu."""

    _fields_ = (
        ("inputs", ctypes.c_uint64 * _MAX_INPUTS),
        ("output", ctypes.c_uint64),
        ("elements", ctypes.c_uint64),
        ("count", ctypes.c_int),
    )


def inputs_of(dtype: type, count: int, elements: int) -> np.ndarray:
    """Random values, for floats of all sizes and with NaN, infinities, both zeros and denormals among them."""
    random = np.random.default_rng((count, elements))
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return np.frombuffer(random.bytes(count * elements * dtype.itemsize), dtype).reshape(count, elements)
    values = random.standard_normal((count, elements)) * 2.0 ** random.integers(-8, 8, (count, elements))
    values = values.astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, ml_dtypes.finfo(dtype).smallest_subnormal]).astype(dtype)
    where = random.random(values.shape) < 0.05
    values[where] = special[random.integers(0, len(special), int(where.sum()))]
    return values


def expected(kind: str, inputs: np.ndarray) -> np.ndarray:
    """Returns the specified result: reduced in order, f16 and bf16 in f32 with one rounding."""
    wide = inputs.astype(np.float32) if inputs.dtype.itemsize == 2 and inputs.dtype.kind not in "iu" else inputs
    total = wide[0]
    with np.errstate(all="ignore"):
        for value in wide[1:]:
            if kind == "sum":
                total = (total + value).astype(wide.dtype)
            elif kind == "prod":
                total = (total * value).astype(wide.dtype)
            else:
                better = total < value if kind == "min" else total > value
                total = np.where((total != total) | better, total, value)
        return total.astype(inputs.dtype)


def difference(got: np.ndarray, want: np.ndarray) -> str:
    """Returns where two results differ in any bit, except payloads of NaNs; "" if they do not."""
    bits = np.dtype(f"u{got.dtype.itemsize}")
    same = (got.view(bits) == want.view(bits)) | ((got != got) & (want != want))
    if same.all():
        return ""
    at = int(np.flatnonzero(~same)[0])
    return f"{int((~same).sum())} of {len(got)} elements differ, first {at}: {got[at]} instead of {want[at]}"


def reduce(cuda: Cuda, function: int, stream: int, inputs: np.ndarray) -> np.ndarray:
    """Runs one kernel."""
    elements = inputs.shape[1]
    arguments = _Arguments(elements=elements, count=len(inputs))
    for number, values in enumerate(inputs):
        arguments.inputs[number] = cuda.upload(values)
    arguments.output = cuda.allocate(max(inputs[0].nbytes, 16))
    blocks = min(max(elements // (16 * _BLOCK), 1), _MAX_BLOCKS)
    cuda.launch(function, blocks, _BLOCK, stream, arguments)
    cuda.synchronize(stream)
    return cuda.download(arguments.output, elements, inputs.dtype)


def check_all(cuda: Cuda, module: int, shapes: Sequence[tuple[int, int]]) -> None:
    """Runs every kernel on every shape, with a check for each kernel."""
    stream = cuda.stream()
    for (name, dtype), kind in itertools.product(TYPES.items(), KINDS):
        function = cuda.function(module, f"reduce_{name}_{kind}")
        problems = []
        for count, elements in shapes:
            inputs = inputs_of(dtype, count, elements)
            problem = difference(reduce(cuda, function, stream, inputs), expected(kind, inputs))
            if problem:
                problems.append(f"{count} inputs: {problem}")
        records.check(f"reduce_{name}_{kind}", not problems, "; ".join(problems))


def main() -> None:
    """Compiles, loads and checks the kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small shapes only, for compute-sanitizer")
    arguments = parser.parse_args()
    cuda = Cuda(0)
    began = time.monotonic()
    image = device_code.reductions(cuda.compute_capability)
    took = f"{time.monotonic() - began:.2f} s"
    records.fact("kernels compiled in", records.NOT_MEASURED if records.emulated() else took)
    check_all(cuda, cuda.load(image), _SMALL if arguments.small else SHAPES)


if __name__ == "__main__":
    main()
