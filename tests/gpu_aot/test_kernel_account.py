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

#: Registers of a multiprocessor. Two blocks must fit, so that lanes of another PE never wait for one to end.
_REGISTERS = 65536

#: Instructions that wait for earlier stores: one at each place that announces messages, none for messages in packets.
_FENCES = {
    **{"move": 1, "reduce": 2, "switch_reduction": 2, "ragged_all_to_all": 1},
    **{"move_packets": 0, "reduce_packets": 0, "trap": 0},
}


@functools.cache
def accounts(architecture: int) -> dict[str, Account]:
    return {row.kernel: row for row in account(architecture, find_ptxas())}


@pytest.fixture(scope="module", autouse=True)
def wheels(compiler: Compiler) -> None:
    """The wheels with ptxas are here."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_blocks_of_each_kernel_fit_on_a_multiprocessor_without_spills(architecture: int) -> None:
    rows = accounts(architecture)
    assert rows.keys() == _FENCES.keys()
    for kernel, row in rows.items():
        assert row.registers * row.threads * 2 <= _REGISTERS
        assert (row.spills, row.stack) == (0, 0)
        has_switch = kernel != "switch_reduction" or architecture >= 90
        assert row.fences == (_FENCES[kernel] if has_switch else 0)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", ["move", "move_packets"])
def test_a_move_has_registers_for_512_threads(architecture: int, kernel: str) -> None:
    row = accounts(architecture)[kernel]
    assert row.threads == 512
    assert row.registers <= 64


def test_more_registers_than_there_are_spill() -> None:
    source = _core.kernel_source().replace("constexpr int kOtherThreads = 256;", "constexpr int kOtherThreads = 1024;")
    rows = {row.kernel: row for row in account(90, find_ptxas(), source)}
    assert rows["reduce"].spills > 0
    assert rows["reduce"].threads == 1024
