"""Bytes, FLOP and counts in words."""

from __future__ import annotations

from collections.abc import Sequence


def format_bytes(count: int) -> str:
    """Returns ``512 B``, ``4.0 KiB``, ``16.0 MiB``: binary units, one decimal, as in the rules' sentences."""
    if count < 1024:
        return f"{count} B"
    return _scaled(count / 1024, 1024, 1024, ("KiB", "MiB", "GiB", "TiB"))


def format_flops(count: int) -> str:
    """Returns ``512 FLOP``, ``4.1 kFLOP``, ``16.0 GFLOP``: decimal units, as in the peaks of devices."""
    if count < 1000:
        return f"{count} FLOP"
    return _scaled(count / 1000, 1000, 999.95, ("kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))


def plural(count: int, noun: str) -> str:
    """Returns ``1 module``, ``2 modules``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _scaled(value: float, step: int, limit: float, units: Sequence[str]) -> str:
    """Returns the value with the first unit in which it is below `limit`; units are `step` apart."""
    for unit in units[:-1]:
        if value < limit:
            return f"{value:.1f} {unit}"
        value /= step
    return f"{value:.1f} {units[-1]}"
