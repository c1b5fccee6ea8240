"""Collectives that cross two NVLink domains of eight GPUs, as XLA:GPU compiles them."""

from __future__ import annotations

import re

import pytest
from compiler_runs import FLAG, Compiler, Run
from divided_programs import DEVICES, DIVIDED, OPS
from dumps import COLLECTIVES, Instruction, Module

ON = {"XLA_SHMEM_OPS": "all", "XLA_SHMEM_NVLINK_DOMAIN": "8", "XLA_SHMEM_HIERARCHICAL": "on"}
#: SHMEM calls before the start of each op, and behind its done.
CALLS = {
    "all_reduce": (["reduce_scatter_parts"], ["all_gather_parts"]),
    "all_gather": ([], ["all_gather_parts"]),
    "reduce_scatter": (["reduce_scatter_parts"], []),
    "all_to_all": ([], ["all_to_all_parts"]),
    "broadcast": ([], ["collective_broadcast"]),
    "permute": ([], ["collective_permute_parts"]),
}
#: Each device with that of the same place in the other domain.
ACROSS = [[i, i + 8] for i in range(8)]


@pytest.fixture(scope="module")
def divided(compiler: Compiler) -> Run:
    return compiler.run("divided", list(DIVIDED), [FLAG], **ON)


@pytest.fixture(scope="module")
def whole(compiler: Compiler) -> Run:
    """The same with `auto`."""
    programs = [f"{op}_across_overlap" for op in OPS] + ["trained_across"]
    return compiler.run("whole", programs, [FLAG], **(ON | {"XLA_SHMEM_HIERARCHICAL": "auto"}))


def ours(module: Module) -> list[Instruction]:
    return [one for one in module.instructions.values() if one.target.startswith("xla_shmem.")]


def participants(module: Module) -> list[list[int]]:
    """The groups, or pairs, of the only collective that XLA has left."""
    (text,) = set(re.findall(r"(?:replica_groups|source_target_pairs)=(\{[{},\d]+\})", module.hlo))
    return [[int(one) for one in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", text)]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("place", ["overlap", "alone", "in_a_loop"])
def test_an_op_becomes_calls_and_a_collective_between_domains(divided: Run, op: str, place: str) -> None:
    module = divided.dump[f"{op}_across_{place}"]
    before, behind = CALLS[op]
    targets = [f"xla_shmem.{target}" for target in before + behind]
    found = [call.target.replace("m.broadcast", "m.collective_broadcast") for call in ours(module)]
    assert found == targets
    assert len({thunk.kind for thunk in module.thunks} & COLLECTIVES) == 1
    records = divided.records[f"{op}_across_{place}"]
    assert sorted(record["lowered"] for record in records) == ["DEFAULT"] + ["NVSHMEM"] * len(targets)
    assert {record["rule"] for record in records} == {"hierarchical"}


@pytest.mark.parametrize("op", OPS)
def test_groups_are_those_of_the_domains(divided: Run, op: str) -> None:
    module = divided.dump[f"{op}_across_alone"]
    between = participants(module)
    if op == "permute":
        assert between == [[7, 8], [15, 0]]
    elif op == "broadcast":
        # Device 3 sends; the group names it first, so it is the first one of its domain.
        assert between[0] == [3, 8]
        assert sorted(device for group in between for device in group) == list(range(DEVICES))
        assert {len(group) for group in between[1:]} == {1}
    else:
        assert between == ACROSS
    for call in ours(module):
        if op == "permute":
            pairs = call.integers("pairs")
            inside = [(i, i + 1) for i in range(DEVICES - 1) if i != 7]
            assert sorted(zip(pairs[::2], pairs[1::2], strict=True)) == inside
            assert sorted(call.integers("received_by")) == [0, 8]
            continue
        first = [3, 0, 1, 2, 4, 5, 6, 7] if op == "broadcast" else list(range(8))
        assert call.integers("group_offsets") == [0, 8, 16]
        assert call.integers("groups") == first + list(range(8, 16))
        if op != "broadcast":
            pieces = re.search(r"\bpieces = (\d+)", call.rest)
            assert pieces
            assert int(pieces[1]) == (1 if op == "all_reduce" else 2)


@pytest.mark.parametrize("op", OPS)
def test_the_matmul_still_runs_beside_the_part_between_domains(divided: Run, whole: Run, op: str) -> None:
    order = divided.dump[f"{op}_across_overlap"].order()
    assert [word for word in order if word != "whole"] == whole.dump[f"{op}_across_overlap"].order()
    before, behind = CALLS[op]
    start, done = order.index("start"), order.index("done")
    assert (order[:start].count("whole"), order[done:].count("whole")) == (len(before), len(behind))
    assert any("gemm" in word for word in order[start:done])


def test_a_permute_receives_where_the_pairs_between_domains_arrived(divided: Run) -> None:
    module = divided.dump["permute_across_overlap"]
    (call,) = ours(module)
    assert len(call.operands) == 2
    permutes = ("collective-permute", "collective-permute-start")
    (between,) = [one for one in module.instructions.values() if one.opcode in permutes]
    arrived = between.name + ("{1}" if between.opcode.endswith("-start") else "")
    assert module.slices[call.name] == module.slices[arrived]


def test_results_overwrite_a_parameter_only_if_the_module_allows_it(divided: Run) -> None:
    module = divided.dump["trained_across"]
    assert module.given_back <= module.donated


def test_groups_in_parts_of_the_domains(divided: Run) -> None:
    module = divided.dump["groups_across"]
    calls = {call.target: call for call in ours(module)}
    for call in calls.values():
        assert call.integers("group_offsets") == [0, 4, 8, 12, 16]
    # The second names a device of each domain in turn.
    assert re.search(r"\bpieces = 1\b", calls["xla_shmem.all_gather_parts"].rest)


def test_a_sum_that_eight_does_not_divide_has_a_rest(divided: Run) -> None:
    module = divided.dump["combined_across"]
    (scatter, gather) = ours(module)
    elements = 13 * 1024 + 1
    assert scatter.shape == f"f32[{elements // 8 + elements % 8}]{{0}}"
    assert gather.target == "xla_shmem.all_gather_parts"


def test_auto_leaves_them_whole(whole: Run) -> None:
    for records in whole.records.values():
        for record in records:
            assert record["lowered"] == "DEFAULT"
            assert record["veto"].endswith("XLA_SHMEM_HIERARCHICAL is auto, which divides nothing on GPU")
