"""On GPU a divided collective keeps its place and its pair between NVLink domains; SHMEM calls stand around it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hlo_text import DEVICES, PassRun, run_pass
from test_hierarchical import ALL, EACH_OP, EXTRAS, GLOBAL, OPS, TOPOLOGY, assert_extras_are_kept, module_with
from test_listed_ops_on_gpu import WORK

from xla_shmem import _core

REACH = _core.gpu_transport({i: i // 2 for i in range(DEVICES)})
#: As XLA prints what lies between the domains, and as the calls have it: device i is PE 3 - i.
ACROSS, LOCAL = "replica_groups={{0,2},{1,3}}", ("array<i64: 0, 2, 4>", "array<i64: 3, 2, 1, 0>")


def divide(module: str, **options: Any) -> PassRun:
    settings: dict[str, Any] = {"topology": TOPOLOGY, "transport": REACH, "hierarchical": "on", "ops": OPS}
    return run_pass(module, "gpu", **(settings | options))


def pair(start: str, done: str, parameters: tuple[str, ...], wrapped: tuple[tuple[str, ...], str] | None = None) -> str:
    """main(p0, p1, ...) with this pair and work between; `wrapped`: shapes and text of the op in async."""
    text = module_with(start, WORK.replace("n)", "p0)"), f"done = {done}", parameters=parameters)
    if wrapped is None:
        return text
    shapes, op = wrapped
    inside = "".join(f"  q{i} = {shape} parameter({i})\n" for i, shape in enumerate(shapes))
    return text.replace("ENTRY", f"async {{\n{inside}  ROOT {op}\n}}\nENTRY")


def arguments(run: PassRun, name: str) -> dict[str, str]:
    found = run.after.arguments(name)
    assert (found["group_offsets"], found["groups"]) == LOCAL
    return found


def test_an_all_reduce_stays_a_pair_of_chunks_between_calls() -> None:
    start = f"op = f32[7,3]{{1,0}} all-reduce-start(p0), channel_id=5, replica_groups={ALL}, {GLOBAL}, to_apply=add"
    run = divide(pair(start, "f32[7,3]{1,0} all-reduce-done(op)", ("f32[7,3]{1,0}",)))
    after = run.after
    assert after.names() == ["p0", "op.local-reduce-scatter", "op", "work", "done", "op.local-all-gather"]
    # 21 elements: 10 for each device, and one that both have.
    assert after.instruction("op.local-reduce-scatter").startswith("f32[11]{0} custom-call(p0)")
    assert after.instruction("op") == (
        f"f32[11]{{0}} all-reduce-start(op.local-reduce-scatter), channel_id=5, {ACROSS}, {GLOBAL}, to_apply=add"
    )
    assert after.instruction("done") == "f32[11]{0} all-reduce-done(op)"
    assert after.instruction("op.local-all-gather").startswith("f32[7,3]{1,0} custom-call(done)")
    assert after.target("op.local-reduce-scatter") == "xla_shmem.reduce_scatter_parts"
    assert after.target("op.local-all-gather") == "xla_shmem.all_gather_parts"
    assert arguments(run, "op.local-reduce-scatter")["pieces"] == "1"
    assert arguments(run, "op.local-all-gather")["pieces"] == "1"
    assert [(r["name"], r["lowered"], r["num_groups"], r["group_size"]) for r in run.records.values()] == [
        ("op.local-reduce-scatter", "NVSHMEM", 2, 2),
        ("op", "DEFAULT", 2, 2),
        ("op.local-all-gather", "NVSHMEM", 2, 2),
    ]
    assert {r["part_of"] for r in run.records.values()} == {"op"}


def test_a_combined_all_reduce_has_a_chunk_of_each_array() -> None:
    shape = "(f32[8]{0}, f32[3,5]{1,0})"
    start = f"op = {shape} all-reduce-start(p0, p1), channel_id=5, replica_groups={ALL}, {GLOBAL}, to_apply=add"
    module = pair(start, f"{shape} all-reduce-done(op)", ("f32[8]{0}", "f32[3,5]{1,0}"))
    after = divide(module.replace("ROOT done", "ROOT done")).after
    assert after.instruction("op").startswith("(f32[4]{0}, f32[8]{0}) all-reduce-start(op.scattered.0, op.scattered.1)")
    assert after.instruction("op.local-all-gather").startswith(f"{shape} custom-call(op.between.0, op.between.1)")


def _gather(operand: str) -> str:
    return f"all-gather({operand}), channel_id=1, replica_groups={ALL}, {GLOBAL}, dimensions={{0}}"


def test_an_all_gather_is_smaller_between_domains() -> None:
    start = f"op = (f32[2,3]{{1,0}}, f32[8,3]{{1,0}}) {_gather('p0').replace('all-gather', 'all-gather-start')}"
    run = divide(pair(start, "f32[8,3]{1,0} all-gather-done(op)", ("f32[2,3]{1,0}",)))
    assert run.after.instruction("op").startswith("(f32[2,3]{1,0}, f32[4,3]{1,0}) all-gather-start(p0), channel_id=1")
    assert ACROSS in run.after.instruction("op")
    assert run.after.instruction("done") == "f32[4,3]{1,0} all-gather-done(op)"
    assert run.after.instruction("op.local-all-gather").startswith("f32[8,3]{1,0} custom-call(done)")
    assert arguments(run, "op.local-all-gather")["pieces"] == "2"


def test_a_wrapped_all_gather_changes_in_its_computation() -> None:
    start = "start = ((f32[2,3]{1,0}), f32[8,3]{1,0}) async-start(p0), calls=async"
    op = (("f32[2,3]{1,0}",), f"op = f32[8,3]{{1,0}} {_gather('q0')}")
    after = divide(pair(start, "f32[8,3]{1,0} async-done(start)", ("f32[2,3]{1,0}",), op)).after
    # XLA prints such a pair as one of all-gather-start and -done, and its computation not at all.
    assert after.instruction("start").startswith("((f32[2,3]{1,0}), f32[4,3]{1,0}) all-gather-start(p0)")
    assert ACROSS in after.instruction("start")
    assert after.instruction("done").startswith("f32[4,3]{1,0} all-gather-done(start)")


@pytest.mark.parametrize("several", [False, True])
def test_a_wrapped_all_reduce_still_works_in_its_operands(several: bool) -> None:
    shapes = ("f32[8]{0}", "f32[3,5]{1,0}") if several else ("f32[8]{0}",)
    chunks = ("f32[4]{0}", "f32[8]{0}")[: len(shapes)]
    names = ", ".join(f"p{i}" for i in range(len(shapes)))
    shared = "{1,0}: (0, {}), {1,1}: (1, {})" if several else "{1}: (0, {})"

    def result(of: tuple[str, ...]) -> str:
        return f"({', '.join(of)})" if several else of[0]

    start = (
        f"start = (({', '.join(shapes)}), {result(shapes)}) async-start({names}), calls=async, "
        f"output_to_operand_aliasing={{{shared}}}"
    )
    reduced = f"all-reduce({names.replace('p', 'q')}), channel_id=1, replica_groups={ALL}, {GLOBAL}, to_apply=add"
    run = divide(
        pair(start, f"{result(shapes)} async-done(start)", shapes, (shapes, f"op = {result(shapes)} {reduced}"))
    )
    text = run.after.instruction("start")
    assert text.startswith(f"(({', '.join(chunks)}), {result(chunks)}) ")
    assert f"output_to_operand_aliasing={{{shared}}}" in text
    assert ACROSS in text
    assert run.after.instruction("done").startswith(f"{result(chunks)} ")
    assert run.after.instruction(run.after.names()[-1]).startswith(f"{result(shapes)} custom-call(")


def test_groups_that_name_a_device_of_each_domain_in_turn_need_no_pieces() -> None:
    start = "start = ((f32[2,3]{1,0}), f32[8,3]{1,0}) async-start(p0), calls=async"
    op = (("f32[2,3]{1,0}",), f"op = f32[8,3]{{1,0}} {_gather('q0').replace(ALL, '{{0,2,1,3}}')}")
    run = divide(pair(start, "f32[8,3]{1,0} async-done(start)", ("f32[2,3]{1,0}",), op))
    assert arguments(run, run.after.names()[-1])["pieces"] == "1"


def test_a_reduce_scatter_has_its_sums_of_a_domain_as_operand() -> None:
    start = "start = ((f32[8,3]{1,0}), f32[2,3]{1,0}) async-start(p0), calls=async"
    scattered = f"reduce-scatter(q0), channel_id=1, replica_groups={ALL}, {GLOBAL}, dimensions={{0}}, to_apply=add"
    op = (("f32[8,3]{1,0}",), f"op = f32[2,3]{{1,0}} {scattered}")
    run = divide(pair(start, "f32[2,3]{1,0} async-done(start)", ("f32[8,3]{1,0}",), op))
    after = run.after
    call = after.names()[1]
    assert call.endswith(".local-reduce-scatter")
    assert after.names() == ["p0", call, "start", "work", "done"]
    assert after.instruction(call).startswith("f32[4,3]{1,0} custom-call(p0)")
    assert after.instruction("start").startswith(
        f"((f32[4,3]{{1,0}}), f32[2,3]{{1,0}}) reduce-scatter-start({call}), channel_id=1, {ACROSS}"
    )
    assert arguments(run, call)["pieces"] == "2"


def test_an_all_to_all_sends_a_row_of_parts_to_each_domain() -> None:
    op = f"op = f32[8]{{0}} all-to-all(p0), channel_id=1, replica_groups={ALL}, dimensions={{0}}"
    run = divide(module_with(op))
    assert run.after.instruction("op") == f"f32[8]{{0}} all-to-all(p0), channel_id=1, {ACROSS}, dimensions={{0}}"
    assert run.after.instruction("op.local-all-to-all").startswith("f32[8]{0} custom-call(op)")
    assert arguments(run, "op.local-all-to-all")["pieces"] == "2"


def test_a_permute_receives_into_what_came_from_other_domains() -> None:
    op = "op = f32[8]{0} collective-permute(p0), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
    run = divide(module_with(op))
    assert run.after.instruction("op") == (
        "f32[8]{0} collective-permute(p0), channel_id=1, source_target_pairs={{1,2},{3,0}}"
    )
    call = run.after.instruction("op.local-collective-permute")
    assert call.startswith("f32[8]{0} custom-call(p0, op)")
    assert "output_to_operand_aliasing={{}: (1, {})}" in call
    found = run.after.arguments("op.local-collective-permute")
    assert (found["pairs"], found["received_by"]) == ("array<i64: 3, 2, 1, 0>", "array<i64: 1, 3>")


def test_a_broadcast_goes_to_one_device_of_each_domain() -> None:
    op = "op = f32[8]{0} collective-broadcast(p0), channel_id=1, replica_groups={{3,0,1}}"
    run = divide(module_with(op))
    # jax 0.12 also prints has_dynamic_root=false.
    assert run.after.instruction("op").startswith(
        "f32[8]{0} collective-broadcast(p0), channel_id=1, replica_groups={{3,0},{1}}"
    )
    assert run.after.instruction("op.local-collective-broadcast").startswith("f32[8]{0} custom-call(op)")
    assert run.after.arguments("op.local-collective-broadcast")["groups"] == "array<i64: 0, 3, 2>"


FIRST, LAST = "first = f32[5]{0} negate(p0)", "last = f32[5]{0} negate(p0), control-predecessors={op}"
#: Of an all-to-all of one array, which is the form that can be divided on GPU.
ONE_ARRAY = f"f32[8]{{0}} all-to-all(p0), channel_id=1, replica_groups={ALL}, dimensions={{0}}"


@pytest.mark.parametrize("op", EACH_OP)
def test_all_parts_wait_as_the_whole_did_and_have_its_attributes(op: str) -> None:
    whole = ONE_ARRAY if op == "all-to-all" else EACH_OP[op]
    run = divide(module_with(FIRST, f"op = {whole}, {EXTRAS}", LAST))
    assert {record["part_of"] for record in run.records.values()} == {"op"}
    assert_extras_are_kept(run, list(run.records))


@pytest.mark.parametrize("form", ["start and done", "wrapped"])
def test_all_parts_of_a_pair_wait_as_its_halves_did_and_have_their_attributes(form: str) -> None:
    done = "f32[8]{0} all-reduce-done(op)"
    start = f"op = {EACH_OP['all-reduce'].replace('all-reduce', 'all-reduce-start')}, {EXTRAS}"
    wrapped = None
    if form == "wrapped":
        start = f"op = ((f32[8]{{0}}), f32[8]{{0}}) async-start(p0), calls=async, {EXTRAS}"
        done = "f32[8]{0} async-done(op)"
        wrapped = (("f32[8]{0}",), f"inside = {EACH_OP['all-reduce'].replace('p0', 'q0')}")
    module = pair(start, f"{done}, {EXTRAS.replace('first', 'work')}", ("f32[8]{0}",), wrapped)
    module = module.replace("  op = ", f"  {FIRST}\n  op = ").replace("ROOT done = ", "done = ")
    last = LAST.replace("op", "done")
    run = divide(re.sub(r"^  done = .*$", rf"\g<0>\n  ROOT {last}", module, flags=re.M))
    calls = [name for name in run.after.names() if name.endswith((".local-reduce-scatter", ".local-all-gather"))]
    assert len(calls) == 2
    assert_extras_are_kept(run, ["op", calls[0]])
    for name in ("done", calls[1]):
        assert "control-predecessors={work}" in run.after.instruction(name)
        assert run.after.attributes(name)["mine"] == "kept"


def test_in_a_loop_the_calls_are_the_usual_ones() -> None:
    body = module_with(
        "loop = f32[8]{0} while(p0), condition=more, body=step",
    )
    inner = (
        "more { c = f32[8]{0} parameter(0)  ROOT yes = pred[] constant(true) }\n"
        f"step {{ x = f32[8]{{0}} parameter(0)  ROOT op = f32[8]{{0}} all-reduce(x), channel_id=1, "
        f"replica_groups={ALL}, {GLOBAL}, to_apply=add }}\nENTRY"
    )
    after = divide(body.replace("ENTRY", inner)).after
    assert after.target("op.local-reduce-scatter") == "xla_shmem.reduce_scatter_parts"
    assert after.target("op.local-all-gather") == "xla_shmem.all_gather_parts"


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (
            "op = f32[8]{0} all-to-all(p0), channel_id=1, replica_groups={{0,2,1,3}}, dimensions={0}",
            "its groups do not list NVLink domain after NVLink domain",
        ),
        (
            f"op = f32[8]{{0}} {_gather('p0').replace(ALL, '{{0,2,3,1}}')}",
            "its groups do not list NVLink domain after NVLink domain",
        ),
        (
            f"op = ({', '.join(['f32[8]{0}'] * 4)}) all-to-all(p0, p0, p0, p0), channel_id=1, replica_groups={ALL}",
            "it has an array of its own for each member",
        ),
        (
            "op = f32[8]{0} collective-broadcast(p0), channel_id=1, replica_groups={{3,0}}",
            "each device of a group is alone in its NVLink domain",
        ),
    ],
)
def test_what_the_calls_cannot_do_stays_whole_with_the_reason(op: str, why: str) -> None:
    (record,) = divide(module_with(op, parameters=("f32[2]{0}" if "gather" in op else "f32[8]{0}",))).records.values()
    assert record["lowered"] == "DEFAULT"
    assert record["veto"].endswith(f"; not divided: {why}")


def test_auto_divides_nothing_on_gpu() -> None:
    op = f"op = f32[8]{{0}} all-reduce(p0), channel_id=1, replica_groups={ALL}, {GLOBAL}, to_apply=add"
    (record,) = divide(module_with(op), hierarchical="auto").records.values()
    assert record["lowered"] == "DEFAULT"
    assert record["veto"].endswith("; not divided: XLA_SHMEM_HIERARCHICAL is auto, which divides nothing on GPU")


def test_a_limit_on_members_holds_in_each_domain() -> None:
    """A group of more devices than one call can have is divided if each domain's part fits."""
    count = 256
    places = [(i, i, i // 8, i // 8, i) for i in range(count)]
    group = "{{" + ",".join(map(str, range(count))) + "}}"
    op = f"op = f32[8]{{0}} all-reduce(p0), channel_id=1, replica_groups={group}, {GLOBAL}, to_apply=add"
    run = divide(
        module_with(op).replace("num_partitions=4", f"num_partitions={count}"),
        topology=_core.Topology(places),
        transport=_core.gpu_transport({i: i // 8 for i in range(count)}),
    )
    assert [r["group_size"] for r in run.records.values()] == [8, 32, 8]
