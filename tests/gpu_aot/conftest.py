"""Fixtures: the programs compiled with the flag, without it, and with command buffers."""

from __future__ import annotations

import pytest
from compiler_runs import FLAG, Compiler, Run
from programs import PROGRAMS


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(tmp_path_factory.mktemp("gpu_aot"))


@pytest.fixture(scope="session")
def lowered(compiler: Compiler) -> Run:
    """All programs with the flag, and one more in stock_collectives()."""
    return compiler.run("lowered", [*PROGRAMS, "stock:permute_overlap"], [FLAG])


@pytest.fixture(scope="session")
def stock(compiler: Compiler) -> Run:
    """All programs without the flag."""
    return compiler.run("stock", list(PROGRAMS), [])


@pytest.fixture(scope="session")
def listed(compiler: Compiler) -> Run:
    """A program with ops that only the CPU path supports, with all ops listed."""
    return compiler.run("listed", ["cpu_only_ops"], [FLAG], XLA_SHMEM_OPS="all")


@pytest.fixture(scope="session")
def captured(compiler: Compiler) -> Run:
    """Some programs with the flag; XLA puts everything it can into command buffers."""
    types = "FUSION,CUSTOM_CALL,COLLECTIVES,WHILE,CONDITIONAL"
    flags = [f"--xla_gpu_enable_command_buffer={types}", "--xla_gpu_graph_min_graph_size=1"]
    programs = ["permute_alone", "psum_alone", "permute_overlap", "permute_scan", "collectives_in_a_branch"]
    return compiler.run("captured", programs, [FLAG, *flags])


@pytest.fixture(scope="session")
def several_buffers(compiler: Compiler) -> Run:
    """A combined all-reduce of several buffers; XLA's pass that makes one buffer of them is switched off."""
    return compiler.run("several_buffers", ["psums_combined"], [FLAG, "--xla_disable_hlo_passes=all-reduce-contiguous"])
