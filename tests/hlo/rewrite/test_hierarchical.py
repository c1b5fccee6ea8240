"""Collectives that cross NVLink domains become parts within domains on SHMEM and a part between them for XLA."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_text import DEVICES, PassRun, run_pass
from reference_proto import decode

from xla_shmem import _core

#: Devices 0 and 1 in one domain, 2 and 3 in another; device i is PE 3 - i.
TOPOLOGY = _core.Topology([(i, i, i // 2, i // 2, DEVICES - 1 - i) for i in range(DEVICES)])
REACH = _core.cpu_transport({i: i // 2 for i in range(DEVICES)})
OPS = [
    (op, None)
    for op in ("all-reduce", "collective-permute", "all-gather", "reduce-scatter", "all-to-all", "collective-broadcast")
]
GLOBAL = "use_global_device_ids=true"
ALL = "{{0,1,2,3}}"
CALL = "custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI"


def module_with(*lines: str, parameters: tuple[str, ...] = ("f32[8]{0}",)) -> str:
    """main() with these instructions on the parameters p0, p1, ...; the last one is the root."""
    declared = "".join(f"  p{i} = {shape} parameter({i})\n" for i, shape in enumerate(parameters))
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
{declared}{"".join(f"  {line}{chr(10)}" for line in lines[:-1])}
  ROOT {lines[-1]}
}}
"""


def divide(module: str, **options: Any) -> PassRun:
    """Runs the pass with the option on; the schedule holds what the module holds, in its order."""
    settings: dict[str, Any] = {"topology": TOPOLOGY, "transport": REACH, "hierarchical": "on", "ops": OPS}
    run = run_pass(module, **(settings | options))
    (main,) = (c for c in decode(run.after.proto).computations if c.name == "main")
    (sequence,) = (s.instruction_ids for k, s in decode(run.after.proto).schedule.sequences.items() if k == main.id)
    assert [i.id for i in main.instructions] == list(sequence)
    return run


def all_reduce(shape: str = "f32[8]{0}", operands: str = "p0", groups: str = ALL) -> str:
    return f"op = {shape} all-reduce({operands}), channel_id=5, replica_groups={groups}, {GLOBAL}, to_apply=add"


def test_an_all_reduce_becomes_reduce_scatter_all_reduce_and_all_gather() -> None:
    after = divide(module_with(all_reduce("f32[100]{0}"), parameters=("f32[100]{0}",))).after
    assert after.names() == ["p0", "op.reduce-scatter", "op.all-reduce", "op"]
    assert after.instruction("op.reduce-scatter") == (
        f'f32[64]{{0}} custom-call(p0), custom_call_target="xla_shmem.reduce_scatter_parts", {CALL}'
    )
    # 50 elements, padded to whole lines of 64 bytes; the channel is one that the module does not have.
    assert after.instruction("op.all-reduce") == (
        f"f32[64]{{0}} all-reduce(op.reduce-scatter), channel_id=6, replica_groups={{{{0,2}},{{1,3}}}}, {GLOBAL}, "
        "to_apply=add"
    )
    assert after.instruction("op") == (
        f'f32[100]{{0}} custom-call(op.all-reduce), custom_call_target="xla_shmem.all_gather_parts", {CALL}'
    )
    for name in ("op.reduce-scatter", "op"):
        arguments = after.arguments(name)
        assert arguments["group_offsets"] == "array<i64: 0, 2, 4>"
        assert arguments["groups"] == "array<i64: 3, 2, 1, 0>"
        assert arguments["positions"] == "array<i64: 0, 1, 0, 1>"
        assert arguments["part_bytes"] == "256"
    assert after.arguments("op.reduce-scatter")["op"] != after.arguments("op")["op"]


def test_a_reduction_that_xla_lacks_is_made_of_what_an_all_gather_brings() -> None:
    module = module_with(all_reduce("u32[100]{0}"), parameters=("u32[100]{0}",))
    module = module.replace("f32[] ", "u32[] ").replace("add(a, b)", "xor(a, b)")
    after = divide(module, hierarchical="auto").after
    assert after.names() == ["p0", "op.reduce-scatter", "op.all-gather", "op.reduce-scatter.1", "op"]
    assert after.instruction("op.all-gather").startswith("u32[128]{0} all-gather(op.reduce-scatter), channel_id=6")
    assert after.target("op.reduce-scatter.1") == "xla_shmem.reduce_parts"
    assert after.arguments("op.reduce-scatter.1")["reduction"] == '"xor"'


def test_a_combined_all_reduce_is_one_vector_between_the_domains() -> None:
    shape = "(f32[8]{0}, f32[3,5]{1,0})"
    after = divide(module_with(all_reduce(shape, "p0, p1"), parameters=("f32[8]{0}", "f32[3,5]{1,0}"))).after
    assert after.instruction("op.reduce-scatter").startswith("f32[16]{0} custom-call(p0, p1)")
    assert after.instruction("op").startswith(f"{shape} custom-call(op.all-reduce)")


def test_each_part_is_recorded_with_the_whole_and_the_reason() -> None:
    run = divide(module_with(all_reduce()))
    records = list(run.records.values())
    assert [(r["name"], r["op"], r["lowered"], r["num_groups"], r["group_size"]) for r in records] == [
        ("op.reduce-scatter", "reduce-scatter", "NVSHMEM", 2, 2),
        ("op.all-reduce", "all-reduce", "DEFAULT", 2, 2),
        ("op", "all-gather", "NVSHMEM", 2, 2),
    ]
    for record in records:
        assert (record["rule"], record["part_of"], record["veto"]) == ("hierarchical", "op", None)
        assert record["num_domains"] == 2
        assert record["reason"].endswith("2 NVLink domains × 2 devices; XLA_SHMEM_HIERARCHICAL is on")
    assert records[1]["reason"].startswith("reduces the chunks between NVLink domains")


def test_an_all_gather_becomes_two() -> None:
    op = (
        f"op = f32[8,3]{{1,0}} all-gather(p0), channel_id=1, replica_groups={{{{2,1,0,3}}}}, dimensions={{0}}, {GLOBAL}"
    )
    after = divide(module_with(op, parameters=("f32[2,3]{1,0}",))).after
    assert after.names() == ["p0", "op.bitcast", "op.all-gather", "op"]
    assert after.instruction("op.bitcast") == "f32[6]{0} bitcast(p0)"
    # In the group device 2 is first, so domain {2,3} is.
    assert after.instruction("op.all-gather") == (
        "f32[12]{0} all-gather(op.bitcast), channel_id=2, replica_groups={{2,1},{3,0}}, dimensions={0}, "
        f"{GLOBAL}"
    )
    assert after.instruction("op").startswith("f32[8,3]{1,0} custom-call(op.all-gather)")
    arguments = after.arguments("op")
    assert arguments["groups"] == "array<i64: 1, 0, 2, 3>"
    # Devices 2 and 1 have places 0 and 1 of the group, devices 3 and 0 places 3 and 2.
    assert arguments["positions"] == "array<i64: 0, 1, 3, 2, 0, 1, 3, 2>"
    assert arguments["part_bytes"] == "24"


def test_a_reduce_scatter_exchanges_parts_between_domains_and_reduces_them() -> None:
    scattered = f"reduce-scatter(p0), channel_id=1, replica_groups={ALL}, {GLOBAL}, dimensions={{0}}, to_apply=add"
    op = f"op = f32[2]{{0}} {scattered}"
    run = divide(module_with(op))
    after = run.after
    assert after.names() == [
        "p0", "op.reduce-scatter", "op.element", "op.element.1", "op.all-to-all", "op.element.2", "op.element.3", "op",
    ]  # fmt: skip
    assert after.instruction("op.reduce-scatter").startswith("(f32[2]{0}, f32[2]{0}) custom-call(p0)")
    assert after.instruction("op.all-to-all") == (
        "(f32[2]{0}, f32[2]{0}) all-to-all(op.element, op.element.1), channel_id=2, replica_groups={{0,2},{1,3}}"
    )
    assert after.instruction("op.element.3") == "f32[2]{0} get-tuple-element(op.all-to-all), index=1"
    assert after.instruction("op").startswith("f32[2]{0} custom-call(op.element.2, op.element.3)")
    assert after.target("op") == "xla_shmem.reduce_parts"
    assert after.arguments("op.reduce-scatter")["positions"] == "array<i64: 0, 2, 1, 3, 0, 2, 1, 3>"
    assert [r["reduction"] for r in run.records.values()] == ["sum", "", "sum"]


def test_an_all_to_all_sends_one_array_from_domain_to_domain() -> None:
    part = "f32[5]{0}"
    op = f"op = ({', '.join([part] * 4)}) all-to-all(p0, p1, p2, p3), channel_id=1, replica_groups={ALL}"
    after = divide(module_with(op, parameters=(part,) * 4)).after
    assert after.instruction("op.all-to-all").startswith("(f32[10]{0}, f32[10]{0}) custom-call(p0, p1, p2, p3)")
    assert after.target("op.all-to-all") == "xla_shmem.all_to_all_parts"
    assert after.instruction("op.all-to-all.1").startswith("(f32[10]{0}, f32[10]{0}) all-to-all(")
    assert after.target("op") == "xla_shmem.all_gather_parts"
    assert after.arguments("op")["group_offsets"] == "array<i64: 0, 1, 2, 3, 4>"
    assert after.arguments("op")["positions"] == f"array<i64: {', '.join(['0, 1, 2, 3'] * 4)}>"


def test_an_all_to_all_of_whole_arrays_is_divided_without_the_copies() -> None:
    part = "f32[2]{0}"
    slices = [f"cut{i} = {part} slice(p0), slice={{[{2 * i}:{2 * i + 2}]}}" for i in range(4)]
    op = f"op = ({', '.join([part] * 4)}) all-to-all(cut0, cut1, cut2, cut3), channel_id=1, replica_groups={ALL}"
    parts = [f"e{i} = {part} get-tuple-element(op), index={i}" for i in range(4)]
    joined = "joined = f32[8]{0} concatenate(e0, e1, e2, e3), dimensions={0}"
    after = divide(module_with(*slices, op, *parts, joined)).after
    assert after.names()[0] == "p0"
    assert after.names()[-1] == "op"
    assert not {"cut0", "e0", "joined"} & set(after.names())
    assert after.instruction("op.all-to-all").startswith("(f32[4]{0}, f32[4]{0}) custom-call(p0)")
    assert after.instruction("op").startswith("f32[8]{0} custom-call(")


def test_a_permute_leaves_only_the_pairs_between_domains_to_xla() -> None:
    op = "op = f32[8]{0} collective-permute(p0), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
    run = divide(module_with(op))
    assert run.after.names() == ["p0", "op.collective-permute", "op"]
    assert run.after.instruction("op.collective-permute") == (
        "f32[8]{0} collective-permute(p0), channel_id=2, source_target_pairs={{1,2},{3,0}}"
    )
    assert run.after.instruction("op").startswith("f32[8]{0} custom-call(p0, op.collective-permute)")
    arguments = run.after.arguments("op")
    assert arguments["pairs"] == "array<i64: 3, 2, 1, 0>"
    assert arguments["received_by"] == "array<i64: 1, 3>"
    assert [r["num_pairs"] for r in run.records.values()] == [2, 2]


def test_a_broadcast_goes_to_one_device_of_each_other_domain() -> None:
    op = "op = f32[8]{0} collective-broadcast(p0), channel_id=1, replica_groups={{3,0,1}}"
    run = divide(module_with(op), hierarchical="auto")  # XLA:CPU has no broadcast, so the model is not asked
    assert run.after.instruction("op.collective-permute") == (
        "f32[8]{0} collective-permute(p0), channel_id=2, source_target_pairs={{3,0}}"
    )
    arguments = run.after.arguments("op")
    assert arguments["groups"] == "array<i64: 0, 3, 2>"
    assert arguments["group_offsets"] == "array<i64: 0, 1, 3>"
    assert arguments["sources"] == "array<i64: 0, 1>"


PERMUTE = "f32[8]{0} collective-permute(p0), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
BROADCAST = "f32[8]{0} collective-broadcast(p0), channel_id=1, replica_groups={{3,0,1}}"
GROUPED = f"channel_id=1, replica_groups={ALL}"
#: Of each op one that is divided, on the parameter p0 of the shape f32[8]{0}.
EACH_OP = {
    "all-reduce": f"f32[8]{{0}} all-reduce(p0), {GROUPED}, {GLOBAL}, to_apply=add",
    "all-gather": f"f32[32]{{0}} all-gather(p0), {GROUPED}, {GLOBAL}, dimensions={{0}}",
    "reduce-scatter": f"f32[2]{{0}} reduce-scatter(p0), {GROUPED}, {GLOBAL}, dimensions={{0}}, to_apply=add",
    "all-to-all": f"({', '.join(['f32[8]{0}'] * 4)}) all-to-all(p0, p0, p0, p0), {GROUPED}",
    "collective-permute": PERMUTE,
    "collective-broadcast": BROADCAST,
}
#: What users and passes of XLA's add to any instruction.
EXTRAS = 'control-predecessors={first}, frontend_attributes={mine="kept"}'


def assert_extras_are_kept(run: PassRun, names: list[str]) -> None:
    """These instructions wait for `first` and have the user's attribute; `last` waits for what is called `op`."""
    for name in names:
        assert "control-predecessors={first}" in run.after.instruction(name), name
        assert run.after.attributes(name)["mine"] == "kept", name
    (module,) = [c for c in decode(run.after.proto).computations if c.name == "main"]
    last = next(i for i in module.instructions if i.name == "last")
    before = next(i for i in decode(run.before.proto).computations[-1].instructions if i.name == "last")
    assert list(last.control_predecessor_ids) == list(before.control_predecessor_ids)
    assert set(last.control_predecessor_ids) <= {i.id for i in module.instructions}


@pytest.mark.parametrize("op", EACH_OP)
def test_all_parts_wait_as_the_whole_did_and_have_its_attributes(op: str) -> None:
    first, last = "first = f32[5]{0} negate(p0)", "last = f32[5]{0} negate(p0), control-predecessors={op}"
    run = divide(module_with(first, f"op = {EACH_OP[op]}, {EXTRAS}", last))
    assert {record["part_of"] for record in run.records.values()} == {"op"}
    assert_extras_are_kept(run, list(run.records))


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (all_reduce(groups="{{0,2},{1,3}}"), "each device of a group is alone in its NVLink domain"),
        (all_reduce(groups="{{0,1,2},{3}}"), "group 0 has 2 and 1 devices in two of its NVLink domains"),
        (all_reduce(groups="{{0,1},{2},{3}}"), ""),
        (
            "op = f32[8]{0} collective-permute(p0), channel_id=1, source_target_pairs={{0,2},{2,0}}",
            "every pair crosses NVLink domains",
        ),
    ],
)
def test_what_cannot_be_divided_stays_whole_with_the_reason(op: str, why: str) -> None:
    run = divide(module_with(op))
    (record,) = run.records.values()
    if why:
        assert record["lowered"] == "DEFAULT"
        assert record["veto"].endswith(f"; not divided: {why}")
    else:
        assert record["lowered"] == "NVSHMEM"  # no group crosses domains


@pytest.mark.parametrize("profile", ["upstream", "domain"])
def test_the_option_leaves_it_whole(profile: str) -> None:
    (record,) = divide(module_with(all_reduce()), hierarchical="off", profile=profile).records.values()
    assert record["lowered"] == "DEFAULT"
    assert (record["veto"] or record["reason"]).endswith("; not divided: XLA_SHMEM_HIERARCHICAL is off")


def test_an_all_reduce_of_the_threshold_stays_whole() -> None:
    run = divide(module_with(all_reduce()), threshold=32, ops=[], profile="domain")
    (record,) = run.records.values()
    assert (record["lowered"], record["rule"]) == ("DEFAULT", "group-across-domains")
    assert "divided" not in record["reason"]


@pytest.mark.parametrize(
    ("divided_us", "whole_us", "rules"), [(9.0, 31.0, {"hierarchical"}), (31.0, 9.0, {"group-across-domains"})]
)
def test_profile_tuned_divides_by_measured_times(divided_us: float, whole_us: float, rules: set[str]) -> None:
    def row(domains: int, nvshmem: float, default: float) -> Any:
        return "all-reduce", "f32", 4, 32, (nvshmem,) * 3, (default,) * 3, domains, {}

    # The row of one domain says the opposite.
    table = _core.TuningTable([row(2, divided_us, whole_us), row(1, whole_us, divided_us)])
    run = divide(module_with(all_reduce()), hierarchical="auto", profile="tuned", ops=[], tuning=table)
    assert {record["rule"] for record in run.records.values()} == rules
    assert {record["num_domains"] for record in run.records.values()} == {2 if "hierarchical" in rules else 0}
    for record in run.records.values():
        assert record["reason"].endswith(
            f"2 NVLink domains × 2 devices; all-reduce of 32 B: HIERARCHICAL {divided_us} µs, DEFAULT {whole_us} µs "
            "measured (f32, groups of 4, 2 NVLink domains)"
        )


def test_profile_tuned_asks_the_model_about_what_was_not_measured_over_several_domains() -> None:
    table = _core.TuningTable([("all-reduce", "f32", 4, 32, (9.0,) * 3, (1.0,) * 3, 1, {})])
    run = divide(module_with(all_reduce()), hierarchical="auto", profile="tuned", ops=[], tuning=table)
    assert {record["rule"] for record in run.records.values()} == {"hierarchical"}
    reason = run.records["op"]["reason"]
    assert "2 NVLink domains × 2 devices: expected " in reason
    assert reason.endswith("the tuning table has no all-reduce over several NVLink domains")


def test_auto_divides_large_all_to_alls_only_if_their_copies_cost_less_than_messages() -> None:
    def lowered(elements: int) -> str:
        part = f"f32[{elements}]{{0}}"
        op = f"op = ({', '.join([part] * 4)}) all-to-all(p0, p1, p2, p3), channel_id=1, replica_groups={ALL}"
        records = divide(module_with(op, parameters=(part,) * 4), hierarchical="auto").records
        return str(records["op"]["rule"])

    assert lowered(16) == "hierarchical"
    assert lowered(1 << 20) != "hierarchical"
