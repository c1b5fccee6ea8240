"""Fixtures: the programs compiled with the flag, without it, and with command buffers."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from compiler_runs import FLAG, Compiler, Run
from listed_programs import LISTED
from programs import DEVICES, PROGRAMS

#: Flags by which XLA puts everything it can into command buffers.
CAPTURE = [
    "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL,COLLECTIVES,WHILE,CONDITIONAL",
    "--xla_gpu_graph_min_graph_size=1",
]


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "gpu_aot"
    folder.mkdir(exist_ok=True)
    return Compiler(folder)


def _needed(request: pytest.FixtureRequest, programs: Iterable[str]) -> list[str]:
    """Those that a selected test has as a parameter or names by `pytest.mark.programs`."""
    named: set[str] = set()
    for item in request.session.items:
        if isinstance(item, pytest.Function):
            parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
            named.update(value for value in parameters if isinstance(value, str))
            named.update(name for mark in item.iter_markers("programs") for name in mark.args)
    return [program for program in programs if program in named]


@pytest.fixture(scope="session")
def lowered(compiler: Compiler, request: pytest.FixtureRequest) -> Run:
    """All programs with the flag, one of an op that is not listed, and one more in stock_collectives()."""
    others = ["ragged_all_to_all_of_slices", "stock:permute_overlap"]
    return compiler.run("lowered", _needed(request, PROGRAMS) + others, [FLAG])


@pytest.fixture(scope="session")
def stock(compiler: Compiler, request: pytest.FixtureRequest) -> Run:
    """All programs without the flag."""
    return compiler.run("stock", _needed(request, PROGRAMS), [])


@pytest.fixture(scope="session")
def listed(compiler: Compiler, request: pytest.FixtureRequest) -> Run:
    """The programs of ops that have to be listed, with all ops listed."""
    return compiler.run("listed", _needed(request, LISTED), [FLAG], XLA_SHMEM_OPS="all")


@pytest.fixture(scope="session")
def one_process(compiler: Compiler, request: pytest.FixtureRequest) -> Run:
    """Programs with the flag, for a job of one process with all eight GPUs."""
    return compiler.run("one_process", _needed(request, PROGRAMS), [FLAG], GPUS_OF_A_PROCESS=str(DEVICES))


@pytest.fixture(scope="session")
def listed_stock(compiler: Compiler, request: pytest.FixtureRequest) -> Run:
    """The same without the flag."""
    return compiler.run("listed_stock", _needed(request, LISTED), [])


@pytest.fixture(scope="session")
def captured(compiler: Compiler) -> Run:
    """Some programs with the flag; XLA puts everything it can into command buffers."""
    programs = ["permute_alone", "psum_alone", "permute_overlap", "permute_scan", "collectives_in_a_branch"]
    return compiler.run("captured", programs, [FLAG, *CAPTURE])


@pytest.fixture(scope="session")
def listed_captured(compiler: Compiler, request: pytest.FixtureRequest) -> Run:
    """The programs of ops that have to be listed, in the same way."""
    return compiler.run("listed_captured", _needed(request, LISTED), [FLAG, *CAPTURE], XLA_SHMEM_OPS="all")


@pytest.fixture(scope="session")
def several_buffers(compiler: Compiler) -> Run:
    """A combined all-reduce of several buffers; XLA's pass that makes one buffer of them is switched off."""
    return compiler.run("several_buffers", ["psums_combined"], [FLAG, "--xla_disable_hlo_passes=all-reduce-contiguous"])


@pytest.fixture(scope="session")
def sliced(compiler: Compiler) -> Run:
    """Collectives on slices. Matmuls are calls of cuBLAS, which XLA's dynamic-slice fusions take in."""
    return compiler.run("sliced", ["slices_moved", "stacks_moved"], [FLAG, "--xla_gpu_enable_triton_gemm=false"])
