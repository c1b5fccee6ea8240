"""Which way each collective takes, by what XLA wrote and by its flags; tests/gpu_aot/test_ways.py asks XLA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xla_shmem.inspect.ways import dumped_flags, way_of

ONE_SHOT = "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel"
WINDOWS = "xla_gpu_experimental_enable_nccl_symmetric_buffers"
COPIES = "xla_gpu_use_memcpy_local_p2p"
DEVICES = 4
SOME_WINDOWS = "xla_enable_nccl_symmetric_buffers_for_collectives"
PERMUTE_MODE = "xla_gpu_collective_permute_mode"


def _record(op: str, **other: Any) -> dict[str, Any]:
    space = other.get("result_space", 0)
    plain = {"lowered": "DEFAULT", "kernel": None, "mode": None, "result_space": 0, "operand_space": space}
    return {"op": op, "dtype": "f32", "bytes": 1024, "group_size": DEVICES, "num_pairs": 0} | plain | other


@pytest.mark.parametrize(
    ("record", "flags", "way"),
    [
        (_record("all-reduce"), {}, "NCCL"),
        (_record("all-reduce", lowered="NVSHMEM"), {}, "NVSHMEM"),
        (_record("all-reduce", lowered="HIERARCHICAL"), {}, "in parts"),
        (_record("all-reduce", kernel="two-shot", result_space=7), {WINDOWS: "true"}, "two-shot kernel"),
        (_record("all-gather", mode="symmetric", result_space=7), {WINDOWS: "true"}, "one-sided"),
        (_record("all-gather", mode="peer"), {}, "NCCL"),
        (_record("all-to-all", mode="symmetric", result_space=7), {}, "NCCL registered"),
        (_record("collective-permute", mode="symmetric"), {}, "one-sided"),
        # The thunk reads the flag.
        (_record("collective-permute", mode="symmetric"), {PERMUTE_MODE: "COLLECTIVES_PRIVATE_MEMORY"}, "NCCL"),
        (_record("collective-permute", mode="private"), {PERMUTE_MODE: "COLLECTIVES_PEER_MEMORY"}, "peer copies"),
        (_record("ragged-all-to-all"), {}, "one-shot kernel"),  # the default
        (_record("ragged-all-to-all"), {ONE_SHOT: "true"}, "one-shot kernel"),
        (_record("ragged-all-to-all"), {ONE_SHOT: "false"}, "NCCL"),
        (_record("all-to-all"), {COPIES: "true"}, "peer copies"),
        (_record("all-gather"), {COPIES: "true"}, "NCCL"),
        # Releases without modes copy permutes too.
        (_record("collective-permute"), {COPIES: "true"}, "peer copies"),
        (_record("collective-permute"), {COPIES: "true", PERMUTE_MODE: "COLLECTIVES_PRIVATE_MEMORY"}, "NCCL"),
        (_record("reduce-scatter", result_space=7), {WINDOWS: "true"}, "NCCL symmetric"),
        (_record("reduce-scatter", result_space=7), {SOME_WINDOWS: "ALLGATHER,ALLCOLLECTIVES"}, "NCCL symmetric"),
        (_record("reduce-scatter", result_space=7), {SOME_WINDOWS: "REDUCESCATTER:1024:F32"}, "NCCL symmetric"),
        (_record("reduce-scatter", result_space=7), {SOME_WINDOWS: "REDUCESCATTER:1023"}, "NCCL registered"),
        (_record("reduce-scatter", result_space=7), {SOME_WINDOWS: "REDUCESCATTER::BF16,ALLGATHER"}, "NCCL registered"),
        # Groups of one device. A permute's other devices get zeros.
        (_record("all-to-all", group_size=1), {}, "copy"),
        (_record("ragged-all-to-all", group_size=1), {ONE_SHOT: "false"}, "NCCL"),
        (_record("collective-permute", group_size=1, num_pairs=DEVICES), {}, "copy"),
        (_record("collective-permute", group_size=1, num_pairs=DEVICES - 1), {}, "NCCL"),
        (_record("reduce-scatter", result_space=1), {WINDOWS: "false"}, "NCCL registered"),
        (_record("reduce-scatter", result_space=7, operand_space=0), {WINDOWS: "true"}, "NCCL"),
        (_record("reduce-scatter", result_space=5), {WINDOWS: "true"}, "NCCL"),  # host memory
    ],
)
def test_the_way_of_a_collective(record: dict[str, Any], flags: dict[str, str], way: str) -> None:
    found = way_of(record, flags, DEVICES)
    assert found.name == way
    plain = way in ("NCCL", "NVSHMEM", "in parts", "two-shot kernel")
    assert bool(found.reason) != plain
    if not plain and flags:
        assert any(flag in found.reason for flag in flags) or "mode is" in found.reason or "registered" in found.reason


def test_flags_are_those_beside_the_module(tmp_path: Path) -> None:
    module = tmp_path / "module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt"
    module.write_text("HloModule jit_f")
    assert dumped_flags(str(module)) == {}
    (tmp_path / "module_0001.jit_f.debug_options").write_text('xla_gpu_a: true\nxla_dump_to: "/d"\n')
    (tmp_path / "module_0001.jit.config.pbtxt").write_text("debug_options {\n  xla_gpu_a: false\n}\n")
    assert dumped_flags(str(module)) == {"xla_gpu_a": "true", "xla_dump_to": "/d"}
    # The module's own configuration has what `compiler_options` changed.
    (tmp_path / "module_0001.jit_f.config.pbtxt").write_text("debug_options {\n  xla_gpu_a: MODE\n}\n")
    assert dumped_flags(str(module)) == {"xla_gpu_a": "MODE"}
    entries = ("collective: ALLREDUCE\n  max_size_bytes: 1024\n  op_type: F32", "collective: ALLGATHER")
    config = "".join(f"  {SOME_WINDOWS} {{\n  {entry}\n  }}\n" for entry in entries)
    (tmp_path / "module_0001.jit_f.config.pbtxt").write_text(f"debug_options {{\n{config}}}\n")
    assert dumped_flags(str(module)) == {SOME_WINDOWS: "ALLREDUCE:1024:F32,ALLGATHER"}
    assert dumped_flags("<stdin>") == {}
