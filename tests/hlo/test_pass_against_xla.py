"""The pass against XLA's own classes: HLO text -> proto -> pass -> XLA; protobuf is the second reader."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from jaxlib import _hlo
from reference_proto import decode
from text_modules import ALL, CPU_MODULE, GPU_MODULE, LISTED_MODULE, N, run, to_proto

from xla_shmem import _core

OWNED = {"frontend_attributes"}
OWNED_BY_CALLS = OWNED | {
    "backend_config",
    "called_computation_ids",
    "channel_id",
    "collective_device_list",
    "custom_call_api_version",
    "custom_call_has_side_effect",
    "custom_call_target",
    "dimensions",
    "iota_collective_device_list",
    "mesh_axes_replica_group_list",
    "opcode",
    "operand_ids",
    "output_operand_aliasing",
    "replica_groups",
    "shape",
    "source_target_pairs",
    "use_global_device_ids",
}

LOWERINGS = [(CPU_MODULE, "cpu"), (GPU_MODULE, "gpu"), (CPU_MODULE, "none")]


def instructions(module: Any) -> dict[str, Any]:
    return {f"{c.name}/{i.name}": i for c in module.computations for i in c.instructions}


def fields(message: Any, without: set[str]) -> dict[str, Any]:
    return {d.name: v for d, v in message.ListFields() if d.name not in without}


@pytest.mark.parametrize(
    ("text", "lowering", "options", "calls"),
    [(CPU_MODULE, "cpu", {}, 3), (GPU_MODULE, "gpu", {}, 4), (LISTED_MODULE, "cpu", ALL, 6)],
)
def test_everything_the_pass_does_not_own_is_untouched(
    text: str, lowering: str, options: dict[str, Any], calls: int
) -> None:
    before_bytes = to_proto(text)
    after_bytes = run(before_bytes, lowering, **options).module
    assert after_bytes is not None
    before, after = decode(before_bytes), decode(after_bytes)
    assert fields(before, {"computations"}) == fields(after, {"computations"})
    assert [c.name for c in before.computations] == [c.name for c in after.computations]
    old, new = instructions(before), instructions(after)
    assert list(old) == list(new)
    rewritten = 0
    for name, instruction in old.items():
        changed = new[name].opcode == "custom-call"
        rewritten += changed
        owned = OWNED_BY_CALLS if changed else OWNED
        assert fields(instruction, owned) == fields(new[name], owned), name
        if changed:
            kept = len(instruction.operand_ids)
            assert list(new[name].operand_ids)[:kept] == list(instruction.operand_ids)
            assert not fields(new[name], set()).keys() & {
                "channel_id",
                "source_target_pairs",
                "called_computation_ids",
            }
        for key, value in instruction.frontend_attributes.map.items():
            assert new[name].frontend_attributes.map[key] == value
    assert rewritten == calls


@pytest.mark.parametrize(
    ("text", "lowering", "options"),
    [(CPU_MODULE, "cpu", {}), (GPU_MODULE, "gpu", {}), (CPU_MODULE, "none", {}), (LISTED_MODULE, "cpu", ALL)],
)
def test_xla_reads_the_rewritten_module_with_its_schedule(text: str, lowering: str, options: dict[str, Any]) -> None:
    proto = to_proto(text)
    module = run(proto, lowering, **options).module
    assert module is not None
    loaded = _hlo.HloModule.from_serialized_hlo_module_proto(module)
    printed = loaded.to_string()
    assert "is_scheduled=true" in printed
    # Through XLA and back nothing is lost, so the pass has nothing left to do.
    again = run(loaded.as_serialized_hlo_module_proto(), lowering, **options)
    assert again.module is None
    entry = printed[printed.index("ENTRY") :]
    names = re.findall(r"^\s+(?:ROOT )?%?([\w.]+) = ", entry, re.M)
    original = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()
    assert names == re.findall(r"^\s+(?:ROOT )?%?([\w.]+) = ", original[original.index("ENTRY") :], re.M)


def test_xla_prints_aliasing_control_dependencies_and_metadata() -> None:
    module = run(to_proto(CPU_MODULE)).module
    assert module is not None
    printed = _hlo.HloModule.from_serialized_hlo_module_proto(module).to_string()
    assert "may-alias" in printed
    assert re.search(r"mx = .*custom-call.*control-predecessors=\{%?ar\}", printed)
    assert 'mine="kept"' in printed
    assert 'op_name="jit(f)/psum"' in printed
    module = run(to_proto(GPU_MODULE), "gpu").module
    assert module is not None
    printed = _hlo.HloModule.from_serialized_hlo_module_proto(module).to_string()
    lines = {line.split(" = ")[0].strip().strip("%"): line for line in printed.splitlines() if " = " in line}
    assert "output_to_operand_aliasing={{}: (0, {})}" in lines["cpd"]
    assert re.search(r"custom-call\((f32\[16\]\{0\} )?%?cps, (f32\[16\]\{0\} )?%?p0\)", lines["cpd"])
    assert "output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {})}" in lines["ars"]
    assert "output_to_operand_aliasing={{0}: (0, {0}), {1}: (0, {1})}" in lines["ard"]
    assert "= f32[16]{0} custom-call(" in lines["cps"]


@pytest.mark.parametrize(("text", "lowering"), [(CPU_MODULE, "cpu"), (GPU_MODULE, "gpu"), (CPU_MODULE, "none")])
def test_records_can_be_read_back(text: str, lowering: str) -> None:
    proto = to_proto(text)
    result = run(proto, lowering)
    assert result.module is not None
    read = {r["name"]: r for r in _core.inspect_module(result.module)}
    assert len(read) == len(result.records)
    for record in result.records:
        known = record["op"] != "all-gather"  # not considered, so nothing is written on it
        expected = record if known else {**record, "num_groups": read[record["name"]]["num_groups"]}
        assert read[record["name"]] == expected


def test_records_say_what_the_module_holds() -> None:
    records = {r["name"]: r for r in run(to_proto(CPU_MODULE)).records}
    assert {n: (r["op"], r["dtype"], r["bytes"], r["num_groups"], r["group_size"]) for n, r in records.items()} == {
        "ring": ("collective-permute", "f32", 64, 1, 4),
        "ar": ("all-reduce", "f32", 128, 2, 4),
        "mx": ("all-reduce", "bf16", 64, 1, 8),
        "ag": ("all-gather", "bf16", 512, 1, 8),
    }
    assert records["ring"]["in_loop"]
    assert records["ring"]["executions"] is None, "this text has no trip count"
    assert records["ar"]["executions"] == 1
    assert records["ring"]["computation"] == "body"
    assert records["ar"]["source_file"] == "train.py"
    assert (records["ar"]["reduction"], records["mx"]["reduction"]) == ("sum", "max")
    assert records["ag"]["rule"] == "unconsidered-op"


def test_listed_ops_are_recorded_and_read_back() -> None:
    result = run(to_proto(LISTED_MODULE), **ALL)
    records = {r["name"]: r for r in result.records}
    shown = {n: (r["op"], r["bytes"], r["num_groups"], r["group_size"], r["reduction"]) for n, r in records.items()}
    assert shown == {
        "ag0": ("all-gather", 384, 2, 4, ""),
        "ag1": ("all-gather", 192, 4, 2, ""),
        "rs": ("reduce-scatter", 48, 1, 8, "xor"),
        "a2a": ("all-to-all", 192, 4, 2, ""),
        "one": ("all-to-all", 384, 1, 8, ""),
        "cb": ("collective-broadcast", 384, 1, 3, ""),
    }
    assert {r["lowered"] for r in records.values()} == {"NVSHMEM"}
    assert result.module is not None
    assert {r["name"]: r for r in _core.inspect_module(result.module)} == records
    targets = {i.name: i.custom_call_target for i in instructions(decode(result.module)).values()}
    assert (targets["ag1"], targets["one"]) == ("xla_shmem.all_gather", "xla_shmem.all_to_all")
    config = instructions(decode(result.module))["main/cb"].backend_config.decode()
    assert "groups = array<i64: 1, 7, 6>" in config, config  # the root first


def lowered_groups(groups: str, mode: str, assignment: list[list[int]] | None) -> list[list[int]]:
    """The groups in PEs that the pass wrote for an all-reduce with this group text."""
    text = f"""
HloModule m, is_scheduled=true
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  p = f32[4]{{0}} parameter(0)
  ROOT ar = f32[4]{{0}} all-reduce(p), {mode}{groups}, to_apply=add
}}
"""
    module = decode(to_proto(text))
    if assignment is not None:  # assignment[replica][partition]
        module.device_assignment.replica_count = len(assignment)
        module.device_assignment.computation_count = len(assignment[0])
        for partition in range(len(assignment[0])):
            module.device_assignment.computation_devices.add().replica_device_ids.extend(
                row[partition] for row in assignment
            )
    rewritten = run(module.SerializeToString()).module
    assert rewritten is not None
    config = instructions(decode(rewritten))["main/ar"].backend_config.decode()

    def numbers(key: str) -> list[int]:
        found = re.search(rf"{key} = array<i64: ([-\d, ]+)>", config)
        assert found, config
        return [int(x) for x in found[1].split(",")]

    pes, offsets = numbers("groups"), numbers("group_offsets")
    return [pes[a:b] for a, b in itertools.pairwise(offsets)]


def pes(groups: Any) -> list[list[int]]:
    return [[N - 1 - int(device) for device in group] for group in groups]


FLATTENED = "channel_id=1, use_global_device_ids=true, "
PERMUTED = [[3, 0, 7, 1], [2, 6, 5, 4]]  # 2 replicas x 4 partitions


@pytest.mark.parametrize(
    ("dims", "perm", "shape"),
    [
        ((8,), (0,), (2, 4)),
        ((4, 2), (1, 0), (2, 4)),
        ((2, 2, 2), (2, 0, 1), (4, 2)),
        ((2, 4), (1, 0), (1, 8)),
        ((2, 2, 2), (1, 2, 0), (2, 4)),
    ],
)
def test_iota_groups_are_numpy_reshape_and_transpose(
    dims: tuple[int, ...], perm: tuple[int, ...], shape: tuple[int, int]
) -> None:
    flattened = np.array(PERMUTED).reshape(-1)
    transpose = f"T({','.join(map(str, perm))})" if len(dims) > 1 else ""
    text = f"replica_groups=[{shape[0]},{shape[1]}]<=[{','.join(map(str, dims))}]{transpose}"
    ids = np.arange(N).reshape(dims).transpose(perm).reshape(shape)
    assert lowered_groups(text, FLATTENED, PERMUTED) == pes(flattened[ids])


@pytest.mark.parametrize(
    ("mode", "groups", "expected"),
    [
        ("", [[0, 1]], [[PERMUTED[r][p] for r in (0, 1)] for p in range(4)]),
        ("", [], [[PERMUTED[r][p] for r in (0, 1)] for p in range(4)]),
        ("channel_id=1, ", [[0], [1]], PERMUTED),
        ("channel_id=1, ", [], [PERMUTED[0] + PERMUTED[1]]),
        (FLATTENED, [[0, 5], [2, 7]], [[3, 6], [7, 4]]),
    ],
)
def test_modes_go_through_the_device_assignment(mode: str, groups: list[list[int]], expected: list[list[int]]) -> None:
    text = "replica_groups={" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}"
    assert lowered_groups(text, mode, PERMUTED) == pes(expected)


def test_mesh_axes_and_sub_axes_are_numpy_axes() -> None:
    ids = np.array(PERMUTED).reshape(-1)
    for axes, expected in [
        ("{'b'}", ids.reshape(2, 4)),
        ("{'a'}", ids.reshape(2, 4).T),
        ("{'b':(1)2}", ids.reshape(2, 2, 2).transpose(0, 2, 1).reshape(4, 2)),
        ("{'b':(2)2}", ids.reshape(4, 2)),
        ("{'a','b':(2)2}", ids.reshape(2, 2, 2).transpose(1, 0, 2).reshape(2, 4)),
    ]:
        got = lowered_groups(f"replica_groups=mesh['a'=2,'b'=4] {axes}", FLATTENED, PERMUTED)
        assert got == pes(expected), axes


def test_bad_input_is_a_value_error_with_the_place() -> None:
    proto = to_proto(CPU_MODULE)
    with pytest.raises(ValueError, match="not a well-formed HloModuleProto"):
        run(proto[:-30])
    with pytest.raises(ValueError, match="not a well-formed HloModuleProto"):
        _core.inspect_module(b"HloModule jit_f")
    with pytest.raises(ValueError, match='unknown profile "fast"'):
        run(proto, profile="fast")
    with pytest.raises(ValueError, match='unknown op "send"'):
        run(proto, ops=[("send", None)])
    with pytest.raises(ValueError, match="limit of -1 bytes for all-gather is negative"):
        run(proto, ops=[("all-gather", -1)])
    with pytest.raises(ValueError, match='unknown lowering "tpu"'):
        run(proto, "tpu")
    with pytest.raises(ValueError, match="device 1 is listed twice"):
        _core.Topology([(1, 0, 0, 0, 0), (1, 0, 0, 0, 1)])


def test_ranks_write_the_same_bytes_whatever_paths_and_ids_they_have() -> None:
    module = decode(to_proto(CPU_MODULE))
    first = run(module.SerializeToString()).module
    module.id += 5
    for instruction in instructions(module).values():
        if instruction.metadata.source_file:
            instruction.metadata.source_file = "/somewhere/else/train.py"
    second = run(module.SerializeToString()).module
    assert first is not None
    assert second is not None
    configs = [b"\n".join(i.backend_config for i in instructions(decode(m)).values()) for m in (first, second)]
    assert b', source = "train.py:7"' in configs[0]  # only errors read it
    assert configs[0] == configs[1].replace(b"/somewhere/else/", b"")


def test_a_deviceless_module_uses_the_topology_in_order() -> None:
    assert lowered_groups("replica_groups={{0,2},{1,3}}", FLATTENED, None) == pes([[0, 2], [1, 3]])
