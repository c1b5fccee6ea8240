"""Builds the double of NVIDIA's driver libraries and runs Python under it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "driver_double.cc"
ROOT = Path(__file__).parents[2]


def build(directory: Path) -> Path:
    """Compiles the double as libnvidia-ml.so.1 and libcuda.so.1; returns the directory."""
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        if not (directory / name).exists():
            flags = ["-std=c++17", "-shared", "-fPIC", f"-I{ROOT}", f"-Wl,-soname,{name}"]
            command = ["c++", *flags, "-o", directory / name, SOURCE]
            subprocess.run(command, check=True, timeout=60)
    return directory


def environment(directory: Path, machine: str, **extra: str) -> dict[str, str]:
    """Returns the environment of a process on `machine` (driver_double.cc lists them)."""
    return {**os.environ, "LD_LIBRARY_PATH": str(directory), "DRIVER_DOUBLE": machine, **extra}


def run_python(program: str, environ: dict[str, str]) -> str:
    """Returns the output of `program`."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60).stdout
