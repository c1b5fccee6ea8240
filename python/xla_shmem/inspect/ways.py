"""How XLA:GPU runs each collective, and what decides it.

The instruction says most of it: a kernel's strategy, the mode of its memory, the memory space of its buffers. The rest
are flags, which XLA dumps beside the module (`*.config.pbtxt`, `*.debug_options`).

Source: XLA at jax 0.12.0.1 and before, `xla/backends/gpu/runtime/*_thunk.cc` and `thunk_emitter.cc`;
tests/gpu_aot/test_ways.py compares with the thunks of serialised executables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

#: Memory spaces of buffers that XLA registers with NCCL: of jax 0.11 and newer, and of 0.10.
_COLLECTIVE_MEMORY = (7, 1)

_ONE_PROCESS = "where a group lies in one process, else by NCCL"

_FLAG = re.compile(r"^\s*(xla_\w+): \"?([^\"\n]*)\"?$", re.MULTILINE)
_FLAG_FILES = (".config.pbtxt", ".debug_options")


class Way(NamedTuple):
    """How a collective runs.

    Attributes:
      name: ``"NCCL"``, ``"NCCL registered"``, ``"NCCL symmetric"``, ``"NVSHMEM"``, ``"one-sided"``, ``"peer copies"``,
        ``"one-shot kernel"``, ``"two-shot kernel"``, ``"own kernel"`` or ``"in parts"``.
      reason: what decides it; ``""`` if nothing but the default does, or the decision says it.
    """

    name: str
    reason: str = ""


def dumped_flags(source: str) -> dict[str, str]:
    """Returns XLA's flags by name that were dumped beside the file of a module; ``{}`` if there are none."""
    path = Path(source)
    beside = sorted(file for ending in _FLAG_FILES for file in path.parent.glob(f"*{ending}")) if path.is_file() else []
    for ending in _FLAG_FILES:
        for file in beside:
            if file.name.endswith(ending) and path.name.startswith(file.name.removesuffix(ending) + "."):
                return dict(_FLAG.findall(file.read_text(errors="replace")))
    return {}


def way_of(record: Mapping[str, Any], flags: Mapping[str, str]) -> Way:
    """Returns how a collective of a module that XLA:GPU compiled runs.

    Args:
      record: what ``_core.inspect_module`` says of it.
      flags: XLA's flags; what depends on one that is missing is taken to have its default.
    """
    if record["lowered"] == "NVSHMEM":
        return Way("NVSHMEM")
    if record["lowered"] == "HIERARCHICAL":
        return Way("in parts")
    if record["kernel"]:
        return Way(f"{record['kernel']} kernel")
    return _by_memory_mode(record, flags) or _by_flag(record, flags) or _by_memory_space(record, flags) or Way("NCCL")


def _by_memory_mode(record: Mapping[str, Any], flags: Mapping[str, str]) -> Way | None:
    op, mode = record["op"], record["mode"]
    if op == "collective-permute":
        # Its thunk reads the flag, whatever the instruction says.
        flag = flags.get("xla_gpu_collective_permute_mode", "")
        mode = _MODES.get(flag, mode)
    if mode == "symmetric" and op in ("all-gather", "collective-permute"):
        return Way("one-sided", f"by NCCL's put and signal {_ONE_PROCESS} (its mode is symmetric)")
    if mode == "peer" and op == "collective-permute":
        return Way("peer copies", f"by copies between GPUs {_ONE_PROCESS} (its mode is peer)")
    return None


_MODES = {
    "COLLECTIVES_PRIVATE_MEMORY": "private",
    "COLLECTIVES_SYMMETRIC_MEMORY": "symmetric",
    "COLLECTIVES_PEER_MEMORY": "peer",
}


def _by_flag(record: Mapping[str, Any], flags: Mapping[str, str]) -> Way | None:
    op = record["op"]
    one_shot = "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel"
    if op == "ragged-all-to-all" and flags.get(one_shot, "true") == "true":
        return Way("one-shot kernel", f"by XLA's kernel {_ONE_PROCESS} (--{one_shot})")
    copies = "xla_gpu_use_memcpy_local_p2p"
    reads_no_mode = "xla_gpu_collective_permute_mode" not in flags
    if flags.get(copies) == "true" and (op == "all-to-all" or (op == "collective-permute" and reads_no_mode)):
        return Way("peer copies", f"by copies between GPUs {_ONE_PROCESS} (--{copies})")
    return None


def _by_memory_space(record: Mapping[str, Any], flags: Mapping[str, str]) -> Way | None:
    space = record["result_space"]
    if space not in _COLLECTIVE_MEMORY or record["operand_space"] != space:
        return None
    windows = "xla_gpu_experimental_enable_nccl_symmetric_buffers"
    if flags.get(windows) == "true":
        return Way("NCCL symmetric", f"its buffers are NCCL's windows, in memory space {space} (--{windows})")
    return Way("NCCL registered", f"its buffers are registered with NCCL, in memory space {space}")
