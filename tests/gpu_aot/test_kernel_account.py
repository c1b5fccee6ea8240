"""What the kernels of the GPU path take of a multiprocessor, by NVIDIA's compilers of the wheels."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
from compiler_runs import Compiler

from xla_shmem import _core

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from kernel_account import ARCHITECTURES, Account, account, find_ptxas

#: Of a thread, at most. So two blocks of 512 threads fit on a multiprocessor, or four of 256, and lanes of another PE
#: never wait for one to end.
_REGISTERS = 64

#: Instructions that wait for earlier stores: one at each place that announces messages, none for messages in packets.
_FENCES = {
    **{"move": 1, "reduce": 2, "switch_reduction": 1, "switch_gather": 1, "ragged_all_to_all": 1},
    **{"send_message": 1, "receive_message": 1, "move_packets": 0, "reduce_packets": 0, "trap": 0},
}

#: Loads and stores of system scope, at most: of progress, of a message's word, and of words that are looked at.
_SYSTEM = {
    **{"move": 11, "reduce": 12, "switch_reduction": 11, "switch_gather": 11, "ragged_all_to_all": 7},
    **{"send_message": 7, "receive_message": 7, "move_packets": 25, "reduce_packets": 25, "trap": 0},
}

#: Kernels of at most 256 threads.
_OTHERS = ("reduce", "reduce_packets", "switch_reduction", "ragged_all_to_all")


@functools.cache
def accounts(architecture: int) -> dict[str, Account]:
    return {row.kernel: row for row in account(architecture, find_ptxas())}


@pytest.fixture(scope="module", autouse=True)
def wheels(compiler: Compiler) -> None:
    """The wheels with ptxas are here."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_kernel_takes_more_registers_than_there_are_or_spills(architecture: int) -> None:
    rows = accounts(architecture)
    assert rows.keys() == _FENCES.keys()
    for kernel, row in rows.items():
        assert row.registers <= _REGISTERS
        assert (row.spills, row.stack) == (0, 0)
        assert row.threads == (1 if kernel == "trap" else 256 if kernel in _OTHERS else 512)
        assert row.system <= _SYSTEM[kernel]
        has_switch = not kernel.startswith("switch_") or architecture >= 90
        assert row.fences == (_FENCES[kernel] if has_switch else 0)


def test_half_the_registers_spill() -> None:
    source = _core.kernel_source().replace("kOtherThreads, 4", "kOtherThreads, 8")
    rows = {row.kernel: row for row in account(90, find_ptxas(), source)}
    assert rows["reduce"].registers <= _REGISTERS / 2
    assert rows["reduce"].spills > 0
