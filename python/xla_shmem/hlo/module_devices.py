"""The number of devices that a module needs."""

from __future__ import annotations

import re

from xla_shmem.hlo.files import HloInput, to_text

_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_CALLS = re.compile(r"\b(?:pairs|groups) = array<i64: ([\d, ]*)>")  # of this package's custom calls
_LISTS = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=")
_MESH = re.compile(r"replica_groups=@?mesh\[([^\]]*)\]")


def devices_needed(module: HloInput) -> int | None:
    """Returns the smallest n for which devices 0 … n-1 include every device that the module names.

    The devices are those of the device assignment or, without one, those in groups and pairs of the collectives. None
    if the module names none.
    """
    if assigned := module.header["devices"]:
        return assigned[-1] + 1
    text = to_text(module.source, module.proto)
    counts = [0]
    for pattern in (_PAIRS, _LISTS, _CALLS):
        for match in pattern.finditer(text):
            counts += [int(number) + 1 for number in re.findall(r"\d+", match[1])]
    counts += [int(match[1]) * int(match[2]) for match in _IOTA.finditer(text)]
    for match in _MESH.finditer(text):
        size = 1
        for axis in re.findall(r"=(\d+)", match[1]):
            size *= int(axis)
        counts.append(size)
    return max(counts) or None
