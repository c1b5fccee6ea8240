"""Small all-reduces, which jax 0.12.0.1 puts into fusions: the pass takes them out, or leaves all as it is."""

from __future__ import annotations

from pathlib import Path

import fused_programs
import jax
import pytest
from compiler_runs import FLAG, WHEELS, Compiler, Run
from dumps import XLA_KERNEL, Module, assert_same_but_for_names
from fused_programs import FUSED, KERNELS, release_fuses

from gpu_compile.compiled_step import compile_step
from long_context.train.config import TrainConfig
from xla_shmem import _core
from xla_shmem.hlo.files import read_module


@pytest.fixture(scope="module")
def stock(compiler: Compiler) -> Run:
    return compiler.run("fused_stock", list(FUSED), [])


@pytest.fixture(scope="module")
def taken(compiler: Compiler) -> Run:
    return compiler.run("fused_taken", list(FUSED), [FLAG])


@pytest.fixture(scope="module")
def left(compiler: Compiler) -> Run:
    """All are over the limit."""
    return compiler.run("fused_left", list(FUSED), [FLAG], XLA_SHMEM_OPS="all-reduce<64")


def inspected(module: Module) -> list[dict[str, object]]:
    return _core.inspect_module(read_module(module.path("after_optimizations.hlo.pb")).proto)


def rows(records: list[dict[str, object]], keys: tuple[str, ...]) -> list[str]:
    return sorted(str([record[key] for key in keys]) for record in records)


def kinds(module: Module) -> list[str]:
    return [thunk.kind for thunk in module.thunks if thunk.kind in (XLA_KERNEL, "kAllReduce")]


@pytest.mark.parametrize("program", FUSED)
def test_stock_xla_runs_them_by_its_own_kernel_and_inspect_says_by_which(stock: Run, program: str) -> None:
    fuses = release_fuses()
    assert kinds(stock.dump[program]) == [XLA_KERNEL if fuses else "kAllReduce"] * len(KERNELS[program])
    records = inspected(stock.dump[program])
    assert [(record["op"], record["lowered"], record["rule"]) for record in records] == [
        ("all-reduce", "DEFAULT", "stock")
    ] * len(KERNELS[program])
    reasons = [f"XLA runs it in a fusion, by its own {kernel} kernel" for kernel in KERNELS[program]]
    assert [record["reason"] for record in records if fuses] == (reasons if fuses else [])
    assert {record["source_file"] for record in records} == {fused_programs.__file__}


@pytest.mark.parametrize("program", FUSED)
def test_the_pass_takes_every_one_out(taken: Run, stock: Run, program: str) -> None:
    module = taken.dump[program]
    assert kinds(module) == []
    assert "__triton_collective" not in module.hlo
    # Where a module loses its aliases, donated memory costs a copy (test_stock.py).
    copies = [word for word in module.order() if word.startswith("kCopy") and word not in stock.dump[program].order()]
    assert bool(copies) is (module.donated != stock.dump[program].donated)
    assert [word for word in module.order() if word not in copies] == stock.dump[program].order()
    records = taken.records[program]
    assert [(record["lowered"], record["veto"]) for record in records] == [("NVSHMEM", None)] * len(KERNELS[program])
    assert {record["source_file"] for record in records} == {fused_programs.__file__}
    described = ("op", "dtype", "bytes", "num_groups", "group_size", "reduction", "executions", "source_line")
    before = inspected(stock.dump[program])
    assert rows(records, described) == rows(before, described)
    decided = ("name", "op", "bytes", "lowered", "reason", "num_groups", "group_size", "reduction", "source_line")
    assert rows(records, decided) == rows(inspected(module), decided)


@pytest.mark.parametrize("program", FUSED)
def test_a_taken_one_needs_no_more_memory(taken: Run, stock: Run, program: str) -> None:
    ours, theirs = taken.dump[program], stock.dump[program]
    assert ours.given_back <= ours.donated
    copied = 0 if ours.donated == theirs.donated else ours.allocated - theirs.allocated
    assert ours.allocated - copied <= theirs.allocated + 1024


def test_xla_schedules_compute_beside_a_sum_only_if_it_does_not_fuse_it(taken: Run) -> None:
    order = taken.dump["fused_overlap"].order()
    assert ("whole" in order) is release_fuses()
    assert ("start" in order) is not release_fuses()


def test_several_at_once_become_pairs_whose_operands_live_until_the_done(taken: Run) -> None:
    module = taken.dump["fused_types"]
    starts, dones = (module.calls(f"xla_shmem.all_reduce_{half}") for half in ("start", "done"))
    assert len(starts) == len(dones) > 0
    for start in starts:
        (done,) = (done for done in dones if done.operands[0] == start.name)
        aliased = "output_to_operand_aliasing" in start.rest
        assert aliased is not release_fuses()  # XLA gives the result of a fusion a buffer of its own
        assert done.operands == (start.name, *([] if aliased else start.operands))
        assert module.slices[start.name] == module.slices[done.name]


@pytest.mark.parametrize("program", FUSED)
def test_one_that_stays_compiles_to_the_same_program(left: Run, stock: Run, program: str) -> None:
    ours, theirs = left.dump[program], stock.dump[program]
    assert {record["rule"] for record in left.records[program]} == {"size"}
    # jax 0.10.2 would drop the aliases of a module that gets attributes.
    assert ('xla_shmem.rule="size"' in ours.hlo) is (jax.__version_info__ >= (0, 11) or not theirs.donated)
    assert_same_but_for_names(ours, theirs)
    assert ours.allocated == theirs.allocated


@pytest.mark.timeout(300)
def test_all_sums_of_a_llama_step_for_eight_gpus_go_to_nvshmem(compiler: Compiler, tmp_path: Path) -> None:
    sizes = {"preset": "demo", "width": 512, "layers": 3, "heads": 8, "kv_heads": 8}
    config = TrainConfig(**sizes, context=1, tensor=8, tensor_matmul="sync", dtype="bf16")
    step = compile_step(config, "h100", WHEELS, module=tmp_path / "step.pb")
    sums = [record for record in step.records if record["op"] == "all-reduce"]
    assert {(record["bytes"] < 16 << 20, record["lowered"]) for record in sums} == {(True, "NVSHMEM")}
    before = _core.inspect_module((tmp_path / "step.pb").read_bytes())
    fused = [record for record in before if "in a fusion" in record["reason"]]
    # All but the last, whose arrays XLA combines.
    assert len(fused) == (len(sums) - 1 if release_fuses() else 0)
    assert len(before) == len(step.records)
