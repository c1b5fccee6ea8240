"""Modules that the pass rewrote, as XLA:GPU compiles them: order, buffers, copies, and no NCCL."""

from __future__ import annotations

import pytest
from compiler_runs import Run
from dumps import Module, Slice
from programs import DEVICES

#: Programs with a collective that goes to SHMEM, by the words its thunks are told by.
PAIRS = {
    "permute_overlap": "permute",
    "permute_scan": "permute",
    "permutes_combined": "permute",
    "permute_mesh_order": "permute",
    "psum_overlap": "all_reduce",
    "psum_scan": "all_reduce",
    "psums_combined": "all_reduce",
    "psum_groups": "all_reduce",
    "partitioned": "all_reduce",
}
WHOLE = {"permute_alone": "collective_permute", "psum_alone": "all_reduce"}
LOWERED = [*PAIRS, *WHOLE, "permutes_both_ways"]


def is_matmul(word: str) -> bool:
    return "gemm" in word or "dot" in word or "kCublasLtMatmul" in word


def only(slices: set[Slice]) -> Slice:
    (one,) = slices
    return one


@pytest.mark.parametrize("program", PAIRS)
def test_a_transfer_runs_beside_the_matmul(lowered: Run, program: str) -> None:
    module = lowered.dump[program]
    order = module.order()
    start, done = order.index("start"), order.index("done")
    assert any(is_matmul(word) for word in order[start:done])
    assert len(module.calls(f"xla_shmem.{PAIRS[program]}_start")) == 1
    assert len(module.calls(f"xla_shmem.{PAIRS[program]}_done")) == 1


@pytest.mark.parametrize("program", ["permute_overlap", "psum_groups", "partitioned"])
def test_eight_gpus_of_one_process_are_a_single_partition(one_process: Run, lowered: Run, program: str) -> None:
    assert {record["rule"] for record in one_process.records[program]} == {"single-partition"}
    assert {record["lowered"] for record in one_process.records[program]} == {"NVSHMEM"}
    targets = (f"xla_shmem.{PAIRS[program]}_start", f"xla_shmem.{PAIRS[program]}_done")
    for target in targets:
        assert len(one_process.dump[program].calls(target)) == len(lowered.dump[program].calls(target)) == 1
    # Their threads meet before all else. With a GPU a process there is nobody to meet.
    (meeting,) = one_process.dump[program].calls("xla_shmem.meet")
    assert one_process.dump[program].thunks[0].name == meeting.name
    assert not lowered.dump[program].calls("xla_shmem.meet")


@pytest.mark.parametrize("program", WHOLE)
def test_a_transfer_with_nothing_beside_it_is_one_call(lowered: Run, program: str) -> None:
    module = lowered.dump[program]
    assert module.order().count("whole") == 1
    assert len(module.calls(f"xla_shmem.{WHOLE[program]}")) == 1
    assert not any(instruction.opcode == "opt-barrier" for instruction in module.instructions.values())


@pytest.mark.parametrize("program", LOWERED)
def test_everything_runs_in_the_order_that_stock_xla_chose_without_more_copies(
    lowered: Run, stock: Run, program: str
) -> None:
    assert lowered.dump[program].order() == stock.dump[program].order()


@pytest.mark.parametrize("program", LOWERED)
def test_no_collective_remains_on_nccl(lowered: Run, stock: Run, program: str) -> None:
    def collectives(module: Module) -> set[str]:
        return {thunk.kind for thunk in module.thunks} & {
            "kAllReduce",
            "kCollectivePermute",
            "kAsyncStart",
            "kAsyncDone",
        }

    assert collectives(stock.dump[program])
    assert not collectives(lowered.dump[program])
    for instruction in lowered.dump[program].instructions.values():
        assert not instruction.opcode.startswith(("all-reduce", "collective-permute", "async-"))


@pytest.mark.parametrize("program", LOWERED)
def test_no_more_memory_is_taken(lowered: Run, stock: Run, program: str) -> None:
    # A start in stock XLA returns a tuple, whose table of pointers needs a few bytes; ours does so if combined.
    assert lowered.dump[program].allocated <= stock.dump[program].allocated + 1024


@pytest.mark.parametrize("program", [program for program, kind in PAIRS.items() if kind == "permute"])
def test_a_permute_writes_its_result_once_and_keeps_its_source_alive(lowered: Run, program: str) -> None:
    module = lowered.dump[program]
    (start,) = module.calls("xla_shmem.permute_start")
    (done,) = module.calls("xla_shmem.permute_done")
    assert done.operands == (start.name, *start.operands)
    parts = [f"{{{i}}}" for i in range(len(start.operands))] if start.shape.startswith("(") else [""]
    for part, source in zip(parts, start.operands, strict=True):
        result = only(module.slices[start.name + part])
        assert module.slices[done.name + part] == {result}
        if source in module.slices:  # else the value has another name
            assert result not in module.slices[source]


@pytest.mark.parametrize("program", [program for program, kind in PAIRS.items() if kind == "all_reduce"])
def test_an_all_reduce_works_in_the_buffer_that_xla_chose(lowered: Run, program: str) -> None:
    module = lowered.dump[program]
    (start,) = module.calls("xla_shmem.all_reduce_start")
    (done,) = module.calls("xla_shmem.all_reduce_done")
    assert done.operands == (start.name,)
    assert module.slices[start.name] == module.slices[done.name] == module.slices[start.operands[0]]


def test_a_combined_all_reduce_works_in_each_of_its_buffers(several_buffers: Run) -> None:
    module = several_buffers.dump["psums_combined"]
    (start,) = module.calls("xla_shmem.all_reduce_start")
    (done,) = module.calls("xla_shmem.all_reduce_done")
    assert len(start.operands) == 2
    for i, operand in enumerate(start.operands):
        start_slice = module.slices[f"{start.name}{{{i}}}"]
        assert start_slice == module.slices[f"{done.name}{{{i}}}"] == module.slices[operand]
    assert module.order().index("start") < module.order().index("done")


@pytest.mark.programs("psum_alone", "permute_alone")
def test_a_whole_all_reduce_works_in_place_and_a_whole_permute_does_not(lowered: Run) -> None:
    (call,) = lowered.dump["psum_alone"].calls("xla_shmem.all_reduce")
    slices = lowered.dump["psum_alone"].slices
    assert slices[call.name] == slices[call.operands[0]]
    (call,) = lowered.dump["permute_alone"].calls("xla_shmem.collective_permute")
    slices = lowered.dump["permute_alone"].slices
    assert not slices[call.name] & slices[call.operands[0]]


@pytest.mark.programs("permute_scan", "psum_scan")
def test_the_steps_of_a_loop_transfer_inside_it(lowered: Run) -> None:
    for program, trips in (("permute_scan", DEVICES), ("psum_scan", 4)):
        kinds = [thunk.kind for thunk in lowered.dump[program].thunks]
        assert kinds.index("kWhile") < kinds.index("kCustomCall")
        assert lowered.records[program][0]["in_loop"]
        assert lowered.records[program][0]["executions"] == trips


@pytest.mark.programs("permute_overlap", "permute_mesh_order")
def test_pes_follow_the_order_of_the_mesh(lowered: Run) -> None:
    ring = [pe for source in range(8) for pe in (source, (source + 1) % 8)]
    (start,) = lowered.dump["permute_overlap"].calls("xla_shmem.permute_start")
    assert start.integers("pairs") == ring
    (start,) = lowered.dump["permute_mesh_order"].calls("xla_shmem.permute_start")
    assert start.integers("pairs") == [7 - pe for pe in ring]


@pytest.mark.programs("psum_groups")
def test_groups_of_a_mesh_axis_stay_apart(lowered: Run) -> None:
    (start,) = lowered.dump["psum_groups"].calls("xla_shmem.all_reduce_start")
    assert start.integers("group_offsets") == [0, 4, 8]
    assert start.integers("groups") == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.programs("psum_large")
def test_an_all_reduce_over_the_threshold_stays_with_nccl_beside_a_lowered_permute(lowered: Run) -> None:
    module = lowered.dump["psum_large"]
    assert [(record["op"], record["lowered"]) for record in lowered.records["psum_large"]] in (
        [("all-reduce", "DEFAULT"), ("collective-permute", "NVSHMEM")],
        [("collective-permute", "NVSHMEM"), ("all-reduce", "DEFAULT")],
    )
    assert [thunk.kind for thunk in module.thunks].count("kAllReduce") == 1
    assert len(module.calls("xla_shmem.permute_start")) + len(module.calls("xla_shmem.collective_permute")) == 1
