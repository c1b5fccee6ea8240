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

_FLAG = re.compile(r"^\s*(xla_\w+): \"?([^\"\n{]*)\"?$", re.MULTILINE)
#: Of the collectives whose buffers are windows: a list of messages, of which each has an op and may have limits.
_WINDOWS_OF = "xla_enable_nccl_symmetric_buffers_for_collectives"
_WINDOWS_ENTRY = re.compile(rf"^\s*{_WINDOWS_OF}:? \{{([^}}]*)\}}", re.MULTILINE)
_WINDOWS_FIELD = re.compile(r"(\w+): \"?(\w+)")
_FLAG_FILES = (".config.pbtxt", ".debug_options")


class Way(NamedTuple):
    """How a collective runs.

    Attributes:
      name: ``"NCCL"``, ``"NCCL registered"``, ``"NCCL symmetric"``, ``"NVSHMEM"``, ``"one-sided"``, ``"peer copies"``,
        ``"one-shot kernel"``, ``"two-shot kernel"``, ``"own kernel"``, ``"copy"`` or ``"in parts"``.
      reason: what decides it; ``""`` if nothing but the default does, or the decision says it.
    """

    name: str
    reason: str = ""


def dumped_flags(source: str) -> dict[str, str]:
    """Returns XLA's flags by name that were dumped beside the file of a module; ``{}`` if there are none.

    The list of collectives whose buffers are NCCL's windows is as on the command line: ``ALLREDUCE:1024,ALLGATHER``.
    """
    path = Path(source)
    beside = sorted(file for ending in _FLAG_FILES for file in path.parent.glob(f"*{ending}")) if path.is_file() else []
    for ending in _FLAG_FILES:
        for file in beside:
            if file.name.endswith(ending) and path.name.startswith(file.name.removesuffix(ending) + "."):
                text = file.read_text(errors="replace")
                windows = ",".join(map(_window, _WINDOWS_ENTRY.findall(text)))
                return dict(_FLAG.findall(text)) | ({_WINDOWS_OF: windows} if windows else {})
    return {}


def _window(entry: str) -> str:
    fields = dict(_WINDOWS_FIELD.findall(entry))
    parts = (fields.get(name, "") for name in ("collective", "max_size_bytes", "op_type"))
    return ":".join(parts).rstrip(":")


def way_of(record: Mapping[str, Any], flags: Mapping[str, str], devices: int) -> Way:
    """Returns how a collective of a module that XLA:GPU compiled runs.

    Args:
      record: what ``_core.inspect_module`` says of it.
      flags: XLA's flags; what depends on one that is missing is taken to have its default.
      devices: of the module; 0 if it does not say.
    """
    if record["lowered"] == "NVSHMEM":
        return Way("NVSHMEM")
    if record["lowered"] == "HIERARCHICAL":
        return Way("in parts")
    if _is_copy(record, devices):
        return Way("copy", "each device is a group of its own, so XLA copies")
    if record["kernel"]:
        return Way(f"{record['kernel']} kernel")
    return _by_memory_mode(record, flags) or _by_flag(record, flags) or _by_memory_space(record, flags) or Way("NCCL")


def _is_copy(record: Mapping[str, Any], devices: int) -> bool:
    if record["op"] == "collective-permute":  # devices without a pair get zeros
        return bool(record["group_size"] == 1 and record["num_pairs"] == devices)
    return bool(record["group_size"] == 1 and record["op"] != "ragged-all-to-all")


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
    if flag := _windows_flag(record, flags):
        return Way("NCCL symmetric", f"its buffers are NCCL's windows, in memory space {space} (--{flag})")
    return Way("NCCL registered", f"its buffers are registered with NCCL, in memory space {space}")


def _windows_flag(record: Mapping[str, Any], flags: Mapping[str, str]) -> str:
    """Returns the flag by which the buffers are windows, "" if none says so."""
    every = "xla_gpu_experimental_enable_nccl_symmetric_buffers"
    if flags.get(every) == "true":
        return every
    op = record["op"].replace("-", "").upper()
    for entry in filter(None, flags.get(_WINDOWS_OF, "").split(",")):
        name, _, limits = entry.partition(":")
        most, _, dtype = limits.partition(":")
        if (
            name in (op, "ALLCOLLECTIVES")
            and (not most or record["bytes"] <= int(most))
            and dtype.lower() in ("", record["dtype"])
        ):
            return f"{_WINDOWS_OF}={entry}"
    return ""
