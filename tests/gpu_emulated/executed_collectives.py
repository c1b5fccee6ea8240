"""Counts the collectives that a process runs on NVSHMEM, and reads from compiled modules how many it should run.

The count is taken where XLA calls the handlers of xla-shmem. A CUDA graph that is launched calls none: what it runs is
counted by the device. A patched XLA (tests/overlay) has its own handlers, and counts itself.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from dataclasses import dataclass
from typing import Any

from xla_shmem import _core

OURS = re.compile(r'custom_call_target="xla_shmem\.(\w+)"')
_NATIVE = re.compile(
    r" (all-reduce|collective-permute|all-gather|reduce-scatter|all-to-all|collective-broadcast|ragged-all-to-all)"
    r"(?:-start)?\("
)
#: A patched XLA keeps the instruction of a collective that it moves.
_MOVED = '"backend":"NVSHMEM"'

#: Variable with the library that is a patched XLA.
PATCHED_XLA = "PATCHED_XLA_LIBRARY"


class Executions:
    """Calls of handlers in this process that begin a collective. Create it before JAX creates its first backend."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()  # the threads of several devices
        self._kept: list[Any] = []
        self._patched: Any = None
        if library := os.environ.get(PATCHED_XLA):
            self._patched = ctypes.CDLL(library)
            self._patched.XlaShmemRuns.restype = ctypes.c_uint64
        handlers = _core.cuda_handlers

        def counted_handlers() -> dict[str, Any]:
            found = handlers()
            return {
                target: stages if target.endswith("_done") else self._counted(stages)
                for target, stages in found.items()
            }

        _core.cuda_handlers = counted_handlers  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """So far."""
        return int(self._patched.XlaShmemRuns()) if self._patched else self._count

    def in_graphs(self) -> tuple[int, int]:
        """How many were captured into CUDA graphs, and how many graphs have run."""
        if not self._patched:
            return _core.gpu_in_graphs()
        captured, run = ctypes.c_uint64(), ctypes.c_uint64()
        self._patched.XlaShmemInGraphs(ctypes.byref(captured), ctypes.byref(run))
        return captured.value, run.value

    def _counted(self, stages: Any) -> Any:
        return {**stages, "execute": self._counted_handler(stages["execute"])}

    def _counted_handler(self, capsule: Any) -> Any:
        get, make = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        name_of = ctypes.pythonapi.PyCapsule_GetName
        name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        name = name_of(capsule)
        handler = kind(get(capsule, name))

        def call(frame: int) -> Any:
            # XLA_FFI_CallFrame: its size, then extensions. With one, XLA only asks for the handler's traits.
            if not ctypes.c_void_p.from_address(frame + ctypes.sizeof(ctypes.c_size_t)).value:
                with self._lock:
                    self._count += 1
            return handler(frame)

        counted = kind(call)
        self._kept += [counted, name]
        return make(ctypes.cast(counted, ctypes.c_void_p), name, None)


@dataclass(frozen=True)
class Expected:
    """How many collectives one run of a module begins on NVSHMEM.

    Attributes:
      least: in any run.
      exact: whether it is the same number in every run, whatever the data.
    """

    least: int
    exact: bool

    def __add__(self, other: Expected) -> Expected:
        return Expected(self.least + other.least, self.exact and other.exact)

    def times(self, count: int) -> Expected:
        """The number in `count` runs."""
        return Expected(self.least * count, self.exact or count == 0)


NOTHING = Expected(0, True)

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
_CALLED = re.compile(r"(?:to_apply|calls|called_computations)=\{?%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRUE_FALSE = re.compile(r"true_computation=%?([\w.-]+), false_computation=%?([\w.-]+)")
_LOOP = re.compile(r" while\(.*condition=%?([\w.-]+), body=%?([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


def left_on_nccl(text: str) -> set[str]:
    """The ops of a compiled module's collectives that stay on NCCL."""
    return {found[1] for line in text.splitlines() if (found := _NATIVE.search(line)) and _MOVED not in line}


def has_ours(text: str) -> bool:
    """Whether a compiled module has a collective on NVSHMEM."""
    return bool(OURS.search(text)) or _MOVED in text


def expected_of(text: str) -> Expected:
    """Reads a compiled module's text."""
    lines: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            name = found[2]
            lines[name] = []
            entry = name if found[1] else entry
        elif name:
            lines[name].append(line)
    done: dict[str, Expected] = {}

    def of(computation: str) -> Expected:
        if computation not in done:
            done[computation] = sum((of_line(line) for line in lines.get(computation, [])), NOTHING)
        return done[computation]

    def of_line(line: str) -> Expected:
        if target := OURS.search(line):
            return NOTHING if target[1].endswith("_done") else Expected(1, True)
        if _MOVED in line and _NATIVE.search(line):
            return Expected(1, True)
        if loop := _LOOP.search(line):
            trips = _TRIPS.search(line)
            if trips is None:
                inside = of(loop[1]) + of(loop[2])
                return of(loop[1]) if inside == NOTHING else Expected(of(loop[1]).least, False)
            return of(loop[2]).times(int(trips[1])) + of(loop[1]).times(int(trips[1]) + 1)
        if branches := _BRANCHES.search(line) or _TRUE_FALSE.search(line):
            names = re.findall(r"[\w.-]+", " ".join(branches.groups()))
            each = [of(branch) for branch in names]
            equal = all(one == each[0] for one in each)
            return each[0] if equal else Expected(min(one.least for one in each), False)
        return sum((of(called) for called in _CALLED.findall(line) if "fusion(" not in line), NOTHING)

    return of(entry)
