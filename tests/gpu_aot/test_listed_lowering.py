"""Ops that `XLA_SHMEM_OPS` has to list, as XLA:GPU compiles them: order, buffers, graphs, and no NCCL."""

from __future__ import annotations

import re

import jax
import pytest
from compiler_runs import Run
from dumps import COLLECTIVES, Instruction, Module, Slice
from listed_programs import EVERY_OP, LISTED, OPS

TARGETS = {op: "collective_broadcast" if op == "broadcast" else op for op in OPS}
PAIRS = {f"{op}_overlap": op for op in OPS} | {f"{op}s_combined": op for op in ("all_gather", "reduce_scatter")}
COLUMNS = ("all_gather", "reduce_scatter", "all_to_all")
WHOLE = {f"{op}_alone": op for op in OPS} | {f"{op}_columns": op for op in COLUMNS} | {"resharded": "all_to_all"}
# XLA makes pairs with only other collectives between them synchronous; with us they stay pairs, whose operands live on.
LIKE_STOCK = [program for program in LISTED if program != "mesh_axes"]


def is_matmul(word: str) -> bool:
    return "gemm" in word or "dot" in word or "kCublasLtMatmul" in word


def only(slices: set[Slice]) -> Slice:
    (one,) = slices
    return one


def is_transfer(call: Instruction) -> bool:
    return call.target.startswith("xla_shmem.") and not call.target.endswith("_done")


def places(module: Module, instruction: Instruction, count: int) -> list[Slice]:
    """Where the results of a call with this number of results lie."""
    parts = [f"{{{i}}}" for i in range(count)] if instruction.shape.startswith("(") else [""]
    return [only(module.slices[instruction.name + part]) for part in parts]


def place_of(module: Module, name: str) -> set[Slice]:
    """Where a value lies; empty if it has another name in the buffer assignment."""
    while name in module.instructions and module.instructions[name].opcode == "bitcast":
        (name,) = module.instructions[name].operands
    value = module.instructions.get(name)
    if element := re.search(r"\bindex=(\d+)", value.rest) if value and value.opcode == "get-tuple-element" else None:
        name = f"{value.operands[0]}{{{element[1]}}}"
    return module.slices.get(name, set())


@pytest.mark.parametrize("program", LISTED)
def test_every_collective_is_lowered(listed: Run, program: str) -> None:
    records = listed.records[program]
    assert records
    assert [(record["op"], record["lowered"], record["veto"]) for record in records] == [
        (record["op"], "NVSHMEM", None) for record in records
    ]


@pytest.mark.parametrize("program", LISTED)
def test_no_collective_remains_on_nccl(listed: Run, listed_stock: Run, program: str) -> None:
    def collectives(module: Module) -> set[str]:
        return {thunk.kind for thunk in module.thunks} & {*COLLECTIVES, "kAsyncStart", "kAsyncDone"}

    assert collectives(listed_stock.dump[program])
    assert not collectives(listed.dump[program])


@pytest.mark.parametrize("program", LIKE_STOCK)
def test_everything_runs_in_the_order_that_stock_xla_chose_without_more_copies(
    listed: Run, listed_stock: Run, program: str
) -> None:
    assert listed.dump[program].order() == listed_stock.dump[program].order()


def overwritten_by_broadcasts(module: Module) -> int:
    """Bytes of the operands that stock XLA's collective-broadcasts overwrite."""
    broadcasts = [each for each in module.instructions.values() if each.opcode == "collective-broadcast"]
    places = [place_of(module, each.operands[0]) & module.slices[each.name] for each in broadcasts]
    return sum(place.size for both in places for place in both)


# XLA of jax 0.10.2 keeps a broadcast with nothing beside it as a pair. From 0.11 it makes one op of it, which
# overwrites an operand that nothing reads later: buffer assignment allows that by opcode. A custom call can only demand
# the operand's buffer (output_to_operand_aliasing). Copy insertion ran before the hook, so nothing would keep other
# values out of that buffer, such as the state of the loop.
OVERWRITTEN = {"broadcast_alone", "broadcast_in_a_loop", "broadcast_in_a_branch"}
OVERWRITES = jax.__version_info__ >= (0, 11)


@pytest.mark.parametrize("program", LIKE_STOCK)
def test_no_more_memory_is_taken(listed: Run, listed_stock: Run, program: str) -> None:
    stock = listed_stock.dump[program]
    overwritten = overwritten_by_broadcasts(stock)
    assert bool(overwritten) == (OVERWRITES and program in OVERWRITTEN)
    assert listed.dump[program].allocated <= stock.allocated + overwritten + 1024


@pytest.mark.parametrize("program", [*PAIRS, "ragged_all_to_all_overlap"])
def test_a_transfer_runs_beside_the_matmul(listed: Run, program: str) -> None:
    module = listed.dump[program]
    order = module.order()
    assert any(is_matmul(word) for word in order[order.index("start") : order.index("done")])
    for half in ("start", "done"):
        assert len(module.calls(f"xla_shmem.{PAIRS.get(program, 'ragged_all_to_all')}_{half}")) == 1


@pytest.mark.parametrize("program", PAIRS)
def test_the_start_writes_the_result_and_the_done_keeps_the_operands_alive(listed: Run, program: str) -> None:
    module = listed.dump[program]
    (start,) = module.calls(f"xla_shmem.{PAIRS[program]}_start")
    (done,) = module.calls(f"xla_shmem.{PAIRS[program]}_done")
    assert done.operands == (start.name, *start.operands)
    written = places(module, start, len(start.operands))
    assert places(module, done, len(start.operands)) == written
    for source in start.operands:
        assert not place_of(module, source) & set(written)


@pytest.mark.programs("ragged_all_to_all_overlap")
def test_a_ragged_pair_writes_into_its_output_operand_and_keeps_all_others_alive(listed: Run) -> None:
    module = listed.dump["ragged_all_to_all_overlap"]
    (start,) = module.calls("xla_shmem.ragged_all_to_all_start")
    (done,) = module.calls("xla_shmem.ragged_all_to_all_done")
    assert done.operands == (start.name, start.operands[0], *start.operands[2:])
    (written,) = places(module, start, 1)
    assert places(module, done, 1) == [written]
    assert place_of(module, start.operands[1]) == {written}
    for source in done.operands[1:]:
        assert written not in place_of(module, source)


@pytest.mark.parametrize("program", ["ragged_all_to_all_alone", "ragged_all_to_all_of_slices"])
def test_a_ragged_all_to_all_with_nothing_beside_it_is_one_call_in_its_output_operand(
    listed: Run, program: str
) -> None:
    module = listed.dump[program]
    (call,) = module.calls("xla_shmem.ragged_all_to_all")
    assert len(call.operands) == 6
    assert place_of(module, call.operands[1]) == module.slices[call.name]
    assert not place_of(module, call.operands[0]) & module.slices[call.name]


@pytest.mark.programs("all_gathers_combined", "reduce_scatters_combined")
def test_combined_ops_stay_one_call_with_a_result_for_each_operand(listed: Run) -> None:
    (gather,) = listed.dump["all_gathers_combined"].calls("xla_shmem.all_gather_start")
    assert gather.shape.startswith("(bf16[4096,1024]{1,0}, bf16[4096,512]{1,0})")
    (scatter,) = listed.dump["reduce_scatters_combined"].calls("xla_shmem.reduce_scatter_start")
    assert scatter.shape.startswith("(bf16[64,1024]{1,0}, bf16[64,512]{1,0})")


@pytest.mark.parametrize("program", WHOLE)
def test_a_transfer_with_nothing_beside_it_is_one_call(listed: Run, program: str) -> None:
    module = listed.dump[program]
    assert module.order().count("whole") == 1
    (call,) = module.calls(f"xla_shmem.{TARGETS[WHOLE[program]]}")
    source = place_of(module, call.operands[0])
    assert source
    assert not module.slices[call.name] & source


@pytest.mark.parametrize("program", [f"{op}_alone" for op in EVERY_OP])
def test_one_call_is_captured(listed_captured: Run, program: str) -> None:
    calls = [thunk for thunk in listed_captured.dump[program].final_thunks if thunk.kind == "kCustomCall"]
    assert [call.inside for call in calls] == ["kCommandBuffer"]


@pytest.mark.parametrize("program", PAIRS)
def test_a_pair_stays_outside_of_graphs_and_the_compute_between_is_captured(listed_captured: Run, program: str) -> None:
    module = listed_captured.dump[program]
    assert [thunk.inside for thunk in module.final_thunks if thunk.kind == "kCustomCall"] == ["", ""]
    order = module.order(module.final_thunks)
    assert any(word.startswith("kCommandBuffer") for word in order[order.index("start") : order.index("done")])


@pytest.mark.parametrize("program", [f"{op}_in_a_{place}" for op in EVERY_OP for place in ("loop", "branch")])
def test_a_loop_or_a_branch_with_a_call_is_captured(listed_captured: Run, program: str) -> None:
    op, _, place = program.partition("_in_a_")
    module = listed_captured.dump[program]
    assert len(module.calls(f"xla_shmem.{TARGETS.get(op, op)}")) == 1
    around = {thunk.kind: thunk.inside for thunk in module.final_thunks}
    assert around["kWhile" if place == "loop" else "kConditional"] == "kCommandBuffer"


@pytest.mark.programs("mesh_axes")
def test_groups_are_those_of_the_mesh_axes(listed: Run) -> None:
    columns, rows = [0, 4, 1, 5, 2, 6, 3, 7], list(range(8))
    module = listed.dump["mesh_axes"]
    found = {}
    for op in OPS:
        (call,) = [*module.calls(f"xla_shmem.{TARGETS[op]}"), *module.calls(f"xla_shmem.{op}_start")]
        found[op] = (call.integers("group_offsets"), call.integers("groups"))
    assert found == {
        "all_gather": ([0, 2, 4, 6, 8], columns),
        "reduce_scatter": ([0, 4, 8], rows),
        "all_to_all": ([0, 4, 8], rows),
        # Device 1 of each pair sends, so it comes first.
        "broadcast": ([0, 2, 4, 6, 8], [4, 0, 5, 1, 6, 2, 7, 3]),
    }


@pytest.mark.programs("rare_types")
def test_types_arrive_as_the_program_has_them(listed: Run) -> None:
    shapes = [call.shape for call in listed.dump["rare_types"].instructions.values() if is_transfer(call)]
    assert sorted(shapes) == ["c64[1,8]{1,0}", "f8e4m3fn[8,8]{1,0}", "pred[8,8]{1,0}", "s8[64,4]{1,0}"]
