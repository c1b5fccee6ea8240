"""What the kernels of the GPU path take of a multiprocessor, by NVIDIA's compilers of the wheels."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xla_shmem import _core

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
from kernel_account import ARCHITECTURES, Account, CompilerError, account, find_ptxas

#: Registers of a multiprocessor. Two blocks must fit, so that lanes of another PE never wait for one to end.
_REGISTERS = 65536

#: Instructions that wait for earlier stores, at most. Each message is one of these; the others say why a kernel cannot
#: go on.
_FENCES = {"move": 11, "reduce": 17, "switch_reduction": 17, "ragged_all_to_all": 26, "trap": 0}


@pytest.fixture(scope="module")
def accounts() -> dict[tuple[str, int], Account]:
    try:
        ptxas = find_ptxas()
    except CompilerError as missing:
        pytest.skip(str(missing))
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda architecture: account(architecture, ptxas), ARCHITECTURES)
        return {(row.kernel, row.architecture): row for rows in found for row in rows}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", _FENCES)
def test_two_blocks_of_a_kernel_fit_on_a_multiprocessor_without_spills(
    accounts: dict[tuple[str, int], Account], kernel: str, architecture: int
) -> None:
    row = accounts[kernel, architecture]
    assert row.registers * row.threads * 2 <= _REGISTERS
    assert (row.spills, row.stack) == (0, 0)
    assert row.fences <= _FENCES[kernel]


def test_a_move_has_registers_for_512_threads(accounts: dict[tuple[str, int], Account]) -> None:
    assert all(row.threads == 512 and row.registers <= 64 for row in accounts.values() if row.kernel == "move")


def test_more_registers_than_there_are_spill(accounts: dict[tuple[str, int], Account]) -> None:
    source = _core.kernel_source().replace("constexpr int kOtherThreads = 256;", "constexpr int kOtherThreads = 1024;")
    rows = {row.kernel: row for row in account(90, find_ptxas(), source)}
    assert rows["reduce"].spills > 0
    assert rows["reduce"].threads == 1024
