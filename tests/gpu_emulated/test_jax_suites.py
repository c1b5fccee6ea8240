"""JAX's own tests of shard_map and pmap on eight emulated GPUs of one process, test by test as on stock JAX.

JAX_SOURCE names a checkout of the installed release of JAX, JAX_SUITE_TESTS chooses tests as pytest's -k does. A test
that the emulator cannot run fails on stock JAX; with the flag it may pass, because emulated NCCL can less than we.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from emulator import FLAG, NO_GRAPH_FLAGS, Emulator

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "clients"))

from client_modes import run_program  # noqa: E402
from suite_outcomes import Outcomes, counted, differences, read_junit  # noqa: E402

SOURCE = os.environ.get("JAX_SOURCE", "")
GPUS = 8
#: A test that ends its process counts as failed; the others run in a new one.
_PLAIN = (
    "-n",
    "1",
    "-o",
    "addopts=",
    "-o",
    "filterwarnings=",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:warnings",
    "-q",
    "--tb=short",
)


def _outcomes(emulator: Emulator, file: str, folder: Path, flag: bool) -> Outcomes:
    """The outcomes of a file of JAX's tests in one process."""
    flags = (*NO_GRAPH_FLAGS, *([FLAG] if flag else []))
    environ = emulator.environment(GPUS, flags, XLA_SHMEM_OPS="all", XLA_SHMEM_STATS="1")
    chosen = os.environ.get("JAX_SUITE_TESTS", "")
    command = [sys.executable, str(TESTS / "clients/pytest_rank.py"), str(folder), *_PLAIN, file]
    run_program([*command, *(["-k", chosen] if chosen else [])], environ, folder, timeout=3000, cwd=Path(SOURCE))
    return read_junit(folder / "0.xml")


@pytest.mark.slow
@pytest.mark.timeout(6100)
@pytest.mark.skipif(not SOURCE, reason="JAX_SOURCE does not name a checkout of jax")
@pytest.mark.parametrize("name", ["shard_map_test", "pmap_test"])
def test_the_outcomes_are_those_of_stock_jax(emulator: Emulator, tmp_path: Path, name: str) -> None:
    file = f"tests/{name}.py"
    stock = {0: _outcomes(emulator, file, tmp_path / "stock", flag=False)}
    flagged = {0: _outcomes(emulator, file, tmp_path / "flag", flag=True)}
    print(f"{name}: stock {counted(stock)}; with the flag {counted(flagged)}")
    assert any(outcome == "passed" for outcome in stock[0].values()), (tmp_path / "stock/output.txt").read_text()[
        -4000:
    ]
    assert "(XLA_SHMEM_STATS)" in (tmp_path / "flag/output.txt").read_text(errors="replace")
    worse = [
        line for line in differences(stock, flagged) if not line.endswith("failed on stock JAX, passed with the flag")
    ]
    assert worse == []
