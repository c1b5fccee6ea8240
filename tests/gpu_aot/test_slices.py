"""Collectives that read a slice of an array or write one, beside operations that XLA fuses with such slices."""

from __future__ import annotations

import jax
import pytest
from compiler_runs import Run

#: From 0.11 on XLA puts library calls into one fusion with the slices that they read and write.
FUSES_LIBRARY_CALLS = jax.__version_info__ >= (0, 11)


@pytest.mark.parametrize("program", ["slices_moved", "stacks_moved"])
def test_collectives_on_slices_go_to_nvshmem(sliced: Run, program: str) -> None:
    records = {record["op"]: (record["lowered"], record["veto"]) for record in sliced.records[program]}
    assert records == {"collective-permute": ("NVSHMEM", None), "all-reduce": ("NVSHMEM", None)}
    module = sliced.dump[program]
    begun = [call for call in module.instructions.values() if call.target.startswith("xla_shmem.")]
    assert len([call for call in begun if not call.target.endswith("_done")]) == 2
    for instruction in module.instructions.values():
        assert not instruction.opcode.startswith(("all-reduce", "collective-permute"))


def test_xla_fuses_the_matmul_between_them_with_its_slices(sliced: Run) -> None:
    (matmul,) = [thunk for thunk in sliced.dump["stacks_moved"].thunks if thunk.kind == "kCublasLtMatmul"]
    assert (matmul.inside == "kDynamicSliceFusion") == FUSES_LIBRARY_CALLS
