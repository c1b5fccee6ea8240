"""How `inspect` says that each collective of a dump runs, compared with the thunks of the serialised executable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from executable_thunks import CollectiveThunk, collective_thunks

from xla_shmem.inspect.modules import read_inspected


def compared_ways(folder: Path) -> dict[str, Counter[str]]:
    """Returns how many collectives of each program run in each way.

    Args:
      folder: XLA's dumps, and NAME.executable for each program NAME that JAX has compiled.

    Raises:
      AssertionError: what is said is not what a thunk does.
    """
    ways: dict[str, Counter[str]] = {}
    modules = {module.input.name: module for module in read_inspected(str(folder), lambda record: True)}
    for file in folder.glob("*.executable"):
        records = [dict(record) for record in modules[f"jit_{file.stem}"].records]
        # These have no thunk of a collective.
        said = Counter(_said(record) for record in records if record["way"] not in ("copy", "NVSHMEM"))
        thunks = collective_thunks(file.read_bytes())
        assert said == Counter((thunk.op, _way(thunk)) for thunk in thunks), file.stem
        ways[file.stem] = Counter(_said(record)[1] for record in records)
    return ways


def _way(thunk: CollectiveThunk) -> str:
    """What a thunk does first. It takes NCCL instead if a group is not in one process."""
    if thunk.op == "collective kernel":
        return "kernel"
    if thunk.one_shot:
        return "one-shot kernel"
    if thunk.mode == "symmetric":
        return "one-sided"
    if thunk.mode == "peer" or thunk.copies:
        return "peer copies"
    if not thunk.space:
        return "NCCL"  # without windows, whatever its config says
    return "NCCL symmetric" if thunk.windows else "NCCL registered"


def _said(record: dict[str, Any]) -> tuple[str, str]:
    if record["kernel"]:
        return "collective kernel", "kernel"
    return record["op"], record["way"]
