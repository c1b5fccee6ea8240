"""Random programs as data, and their inputs.

All of it is JSON. A set of programs has::

    {"programs": [...], "runs": [[program, seed of its inputs], ...], "threads": [{"runs", "wait"}, ...]}

A Python thread starts its ``runs``, one after another, without waiting for results; it then waits for them in the order
``wait``. A program has::

    {"name", "order": device positions, "shape" and "axes" of its mesh, "inputs": [[shape, dtype], ...],
     "donate": [input, ...], "body": [op, ...], "results": [value, ...]}

Input i is value i. An op has ``op`` (its name), ``in`` and ``out`` (numbers of values) and its parameters. A region
(the body of a loop or a branch) is ``{"params": [value, ...], "body": [op, ...], "results": [value, ...]}``.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Op = dict[str, Any]
Program = dict[str, Any]
ProgramSet = dict[str, Any]

INTEGERS = ("int32", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
#: Types whose numbers stay so small that sums are exact in any order, with the largest such number.
EXACT = {
    "float32": 2**24,
    "float64": 2**53,
    "bfloat16": 2**8,
    "float16": 2**11,
    "complex64": 2**24,
    "complex128": 2**53,
    "float8_e4m3fn": 2**4,
    "float8_e5m2": 2**3,
    "int4": 7,
    "uint4": 15,
}
TYPES = (*INTEGERS, *EXACT, "bool")
#: The largest absolute value of inputs and of what a loop carries, in types of `EXACT`.
SMALL = 2
#: What `convert` brings its operand to, so that every type can hold it.
CONVERTED = 4


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's type, also for names that only ml_dtypes has."""
    return np.dtype(getattr(ml_dtypes, name, name))


def is_complex(name: str) -> bool:
    return name.startswith("complex")


def is_unsigned(name: str) -> bool:
    return name.startswith("uint")


def input_values(shape: list[int], dtype: str, devices: int, seed: int) -> np.ndarray:
    """The values of an input on all devices, shape (devices, *shape): any integers, or small whole numbers."""
    random = np.random.default_rng(seed)
    whole = (devices, *shape)
    if dtype == "bool":
        return random.integers(0, 2, whole).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, whole, dtype, endpoint=True)
    values = random.integers(0 if is_unsigned(dtype) else -SMALL, SMALL, whole, endpoint=True)
    if is_complex(dtype):
        values = values + 1j * random.integers(-SMALL, SMALL, whole, endpoint=True)
    return values.astype(dtype_of(dtype))
