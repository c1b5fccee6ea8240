"""Modules that the pass does not rewrite compile as without it, and dumps contain the decisions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from compiler_runs import FLAG, WHEELS, Compiler, Run
from dumps import assert_same_but_for_names
from programs import PROGRAMS

from gpu_compile.environment import compile_environment
from xla_shmem import _core
from xla_shmem.hlo.files import read_module

DONATED = ["psum_donated", "permute_donated", "psum_donated_only"]


@pytest.mark.programs("psum_large_only")
def test_a_collective_on_default_compiles_to_the_same_program(stock: Run, lowered: Run) -> None:
    ours, theirs = lowered.dump["psum_large_only"], stock.dump["psum_large_only"]
    assert ours.hlo != theirs.hlo  # it contains the reason
    assert 'xla_shmem.rule="size"' in ours.hlo
    assert ours.plain_hlo == theirs.plain_hlo
    assert ours.thunk_text == theirs.thunk_text
    assert ours.slices == theirs.slices
    assert ours.allocated == theirs.allocated


@pytest.mark.programs("ragged_all_to_all_of_slices")
def test_an_op_that_is_not_listed_compiles_to_the_same_program(lowered: Run, listed_stock: Run) -> None:
    program = "ragged_all_to_all_of_slices"
    (record,) = lowered.records[program]
    assert (record["op"], record["rule"], record["lowered"]) == ("ragged-all-to-all", "unconsidered-op", "DEFAULT")
    ours, theirs = lowered.dump[program], listed_stock.dump[program]
    assert_same_but_for_names(ours, theirs)


@pytest.mark.programs("no_collective")
def test_a_module_without_collectives_does_not_change_at_all(lowered: Run, stock: Run) -> None:
    assert lowered.dump["no_collective"].hlo == stock.dump["no_collective"].hlo


@pytest.mark.programs("permute_overlap")
def test_stock_collectives_takes_the_pass_out(lowered: Run, stock: Run) -> None:
    with_pass, without = lowered.dump.modules("permute_overlap")
    assert with_pass.calls("xla_shmem.permute_start")
    assert without.hlo == stock.dump["permute_overlap"].hlo
    assert without.thunk_text == stock.dump["permute_overlap"].thunk_text


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_overwrite_a_parameter_only_if_the_module_allows_it(lowered: Run, program: str) -> None:
    # jax 0.10.2 drops the module's aliases after a transform, and would return the caller's memory.
    module = lowered.dump[program]
    assert module.given_back <= module.donated


@pytest.mark.parametrize("program", DONATED)
def test_donation_is_kept_or_costs_one_copy(lowered: Run, stock: Run, program: str) -> None:
    ours, theirs = lowered.dump[program], stock.dump[program]
    assert theirs.given_back == {0}
    if ours.donated:
        assert ours.given_back == {0}
        assert ours.order() == theirs.order()
    else:
        (copy,) = set(ours.order()) - set(theirs.order())
        assert copy.startswith("kCopy")
        assert [word for word in ours.order() if word != copy] == theirs.order()


@pytest.mark.programs("permute_overlap")
def test_without_the_flag_nothing_is_recorded(stock: Run) -> None:
    assert stock.records == {}


@pytest.mark.parametrize("program", ["permute_scan", "permutes_combined", "psum_overlap", "psum_alone", "psum_large"])
def test_inspect_reads_the_decisions_back_from_xlas_dump(lowered: Run, program: str) -> None:
    def essence(record: Any) -> tuple[Any, ...]:
        keys = ("op", "bytes", "backend", "lowered", "veto", "rule", "reason", "num_groups", "group_size", "num_pairs")
        return tuple(record[key] for key in (*keys, "reduction", "in_loop"))

    dumped = _core.inspect_module(read_module(lowered.dump[program].path("after_optimizations.hlo.pb")).proto)
    assert sorted(map(essence, dumped)) == sorted(map(essence, lowered.records[program]))


def test_a_process_with_the_plugin_and_no_gpu_runs_on_the_cpu(compiler: Compiler) -> None:
    program = "import jax; print(jax.devices(), jax.jit(lambda x: x + 1)(1))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=compile_environment(WHEELS, [FLAG]) | {"JAX_PLATFORMS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[CpuDevice(id=0)] 2"
    told = [line for line in done.stderr.splitlines() if "xla_shmem:" in line]
    assert len(told) == 1
    assert "collectives between GPUs stay on the default backend" in told[0]
