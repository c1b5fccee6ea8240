"""The pass replaces permutes and all-reduces, in sync form or as pairs, and records its decisions."""

from __future__ import annotations

import pytest
from hlo_text import inspect, run_pass, to_proto
from reference_proto import decode

from xla_shmem import _core

SYNC = """
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  p0 = f32[1024]{0} parameter(0)
  permute.2 = f32[1024]{0} collective-permute(p0), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}},
    metadata={op_name="jit(f)/ppermute" source_file="/home/me/train.py" source_line=42},
    frontend_attributes={mine="kept"}, control-predecessors={p0}
  all-reduce.3 = f32[1024]{0} all-reduce(permute.2), channel_id=1, replica_groups={{0,1,2,3}},
    use_global_device_ids=true, to_apply=add, sharding={replicated}
  ROOT add.4 = f32[1024]{0} add(all-reduce.3, p0)
}
"""

PAIRS = """
HloModule jit_g, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  p0 = f32[256]{0} parameter(0)
  p1 = f32[256]{0} parameter(1)
  cp-start = (f32[256]{0}, f32[256]{0}) collective-permute-start(p0), channel_id=1,
    source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, backend_config={"operation_queue_id":"0"}
  ar-start = (f32[256]{0}, f32[256]{0}) all-reduce-start(p0, p1), channel_id=2, replica_groups={{0,1},{2,3}},
    use_global_device_ids=true, to_apply=add, backend_config={"operation_queue_id":"0"}
  cp-done = f32[256]{0} collective-permute-done(cp-start)
  ar-done = (f32[256]{0}, f32[256]{0}) all-reduce-done(ar-start)
  cp2-start = ((f32[256]{0}, f32[256]{0}), (f32[256]{0}, f32[256]{0})) collective-permute-start(p0, p1), channel_id=3,
    source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  between = f32[256]{0} negate(p1)
  cp2-done = (f32[256]{0}, f32[256]{0}) collective-permute-done(cp2-start)
  a = f32[256]{0} get-tuple-element(ar-done), index=0
  b = f32[256]{0} get-tuple-element(cp2-done), index=1
  ROOT t = (f32[256]{0}, f32[256]{0}, f32[256]{0}, f32[256]{0}) tuple(cp-done, a, b, between)
}
"""

CALL = "custom_call_has_side_effect=true"
FFI = "api_version=API_VERSION_TYPED_FFI"


def module_with(op: str, operand: str = "f32[8]{0}", function: str = "add") -> str:
    """main() with one collective `op` on the parameter p."""
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] {function}(a, b) }}
ENTRY main {{
  p = {operand} parameter(0)
  ROOT op = {op}
}}
"""


def permute(shape: str = "f32[8]{0}", pairs: str = "{{0,1},{1,2},{2,3},{3,0}}") -> str:
    return f"{shape} collective-permute(p), channel_id=1, source_target_pairs={pairs}"


def all_reduce(extra: str = "") -> str:
    groups = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true"
    return f"f32[8]{{0}} all-reduce(p), {groups}, to_apply=f{extra}"


def test_sync_collectives_become_cpu_calls_in_their_place() -> None:
    run = run_pass(SYNC)
    assert run.after.names() == ["p0", "permute.2", "all-reduce.3", "add.4"]
    assert run.after.instruction("permute.2") == (
        f'f32[1024]{{0}} custom-call(p0), custom_call_target="xla_shmem.collective_permute", {CALL}, {FFI}, '
        "control-predecessors={p0}, "
        'metadata={op_name="jit(f)/ppermute" source_file="/home/me/train.py" source_line=42}'
    )
    assert run.after.instruction("all-reduce.3") == (
        'f32[1024]{0} custom-call(permute.2), custom_call_target="xla_shmem.all_reduce", '
        f"{CALL}, {FFI}, sharding={{replicated}}"
    )
    assert run.after.instruction("add.4") == run.before.instruction("add.4")
    assert run.after.attributes("permute.2")["mine"] == "kept"


#: By which a copy of the program that differs is found.
ORIGIN = ["program", "form", "place", "part", "contents"]


def test_a_permute_carries_its_pairs_in_pes() -> None:
    arguments = run_pass(SYNC).after.arguments("permute.2")
    assert list(arguments) == ["op", "module", "name", "topology", "pairs", "source", *ORIGIN]
    assert arguments["source"] == '"/home/me/train.py:42"'
    assert (arguments["module"], arguments["name"]) == ('"jit_f"', '"permute.2"')
    assert arguments["pairs"] == "array<i64: 3, 2, 2, 1, 1, 0, 0, 3>"


def test_an_all_reduce_carries_its_reduction_and_its_groups_in_pes() -> None:
    arguments = run_pass(SYNC).after.arguments("all-reduce.3")
    assert list(arguments) == ["op", "module", "name", "topology", "reduction", "group_offsets", "groups", *ORIGIN]
    assert arguments["reduction"] == '"sum"'
    assert arguments["group_offsets"] == "array<i64: 0, 4>"
    assert arguments["groups"] == "array<i64: 3, 2, 1, 0>"


def test_records_have_the_source_line_the_bytes_and_the_group_size() -> None:
    run = run_pass(SYNC)
    assert list(run.records) == ["permute.2", "all-reduce.3"]
    permuted = run.records["permute.2"]
    assert (permuted["source_file"], permuted["source_line"]) == ("/home/me/train.py", 42)
    assert run.after.attributes("permute.2")["source"] == "/home/me/train.py:42"
    assert (run.records["all-reduce.3"]["bytes"], run.records["all-reduce.3"]["group_size"]) == (4096, 4)


def test_an_all_reduce_left_on_default_only_gains_attributes() -> None:
    run = run_pass(SYNC.replace("1024", str(1 << 22)))
    assert run.after.instruction("all-reduce.3") == run.before.instruction("all-reduce.3")
    written = run.after.attributes("all-reduce.3")
    assert (written["backend"], written["rule"]) == ("DEFAULT", "size")
    assert written["reason"] == "all-reduce of 16.0 MiB ≥ threshold 16.0 MiB"
    assert "veto" not in written
    assert run.after.target("permute.2") == "xla_shmem.collective_permute"


def test_a_permute_pair_becomes_two_gpu_calls_and_keeps_the_operand_alive_until_the_done() -> None:
    run = run_pass(PAIRS, "gpu")
    assert run.after.instruction("cp-start") == (
        f'f32[256]{{0}} custom-call(p0), custom_call_target="xla_shmem.permute_start", {CALL}, {FFI}'
    )
    assert run.after.instruction("cp-done") == (
        f'f32[256]{{0}} custom-call(cp-start, p0), custom_call_target="xla_shmem.permute_done", {CALL}, '
        f"output_to_operand_aliasing={{{{}}: (0, {{}})}}, {FFI}"
    )
    assert run.after.arguments("cp-start") == run.after.arguments("cp-done")


def test_a_combined_all_reduce_pair_works_in_the_buffers_of_its_operands() -> None:
    run = run_pass(PAIRS, "gpu")
    assert run.after.instruction("ar-start") == (
        '(f32[256]{0}, f32[256]{0}) custom-call(p0, p1), custom_call_target="xla_shmem.all_reduce_start", '
        f"{CALL}, output_to_operand_aliasing={{{{0}}: (0, {{}}), {{1}}: (1, {{}})}}, {FFI}"
    )
    assert run.after.instruction("ar-done") == (
        '(f32[256]{0}, f32[256]{0}) custom-call(ar-start), custom_call_target="xla_shmem.all_reduce_done", '
        f"{CALL}, output_to_operand_aliasing={{{{0}}: (0, {{0}}), {{1}}: (0, {{1}})}}, {FFI}"
    )


def test_a_combined_permute_pair_hands_all_its_operands_to_the_done() -> None:
    run = run_pass(PAIRS, "gpu")
    assert run.after.instruction("cp2-done") == (
        '(f32[256]{0}, f32[256]{0}) custom-call(cp2-start, p0, p1), custom_call_target="xla_shmem.permute_done", '
        f"{CALL}, output_to_operand_aliasing={{{{0}}: (0, {{0}}), {{1}}: (0, {{1}})}}, {FFI}"
    )


def test_a_pair_is_one_record_with_the_name_of_its_start() -> None:
    run = run_pass(PAIRS, "gpu")
    assert {name: (r["op"], r["bytes"]) for name, r in run.records.items()} == {
        "cp-start": ("collective-permute", 1024),
        "ar-start": ("all-reduce", 2048),
        "cp2-start": ("collective-permute", 2048),
    }


def test_pairs_left_on_default_keep_their_gpu_config_and_both_carry_the_decision() -> None:
    missing = "libnvshmem_host.so.3: not found"
    run = run_pass(PAIRS, "gpu", transport=_core.Transport(False, missing))
    assert '"operation_queue_id":"0"' in run.after.instruction("cp-start")
    for name in ("cp-start", "cp-done"):
        assert run.after.instruction(name) == run.before.instruction(name)
        written = run.after.attributes(name)
        assert (written["backend"], written["lowered"], written["veto"]) == ("NVSHMEM", "DEFAULT", missing)


@pytest.mark.parametrize("text", [SYNC, PAIRS])
def test_lowering_none_writes_attributes_and_nothing_else(text: str) -> None:
    run = run_pass(text, "none")
    assert run.changed
    assert {record["lowered"] for record in run.records.values()} == {"NVSHMEM"}
    for name in run.before.names():
        assert run.after.instruction(name) == run.before.instruction(name)


def test_another_threshold_decides_again_on_a_module_that_was_only_annotated() -> None:
    annotated = run_pass(SYNC, "none").after.proto
    run = run_pass(annotated, "none", threshold=100)
    assert run.changed
    assert run.after.attributes("all-reduce.3")["rule"] == "size"


def test_loops_and_wrapped_collectives_are_listed_where_a_user_sees_them() -> None:
    run = run_pass("""
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
body {
  p = f32[8]{0} parameter(0)
  ROOT permute.9 = f32[8]{0} collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
cond { p = f32[8]{0} parameter(0)  ROOT c = pred[] constant(false) }
async_rs {
  p = f32[8]{0} parameter(0)
  ROOT rs = f32[2]{0} reduce-scatter(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true,
    dimensions={0}, to_apply=add
}
ENTRY main {
  p = f32[8]{0} parameter(0)
  w = f32[8]{0} while(p), condition=cond, body=body, backend_config={"known_trip_count":{"n":"5"}}
  rs-start = ((f32[8]{0}), f32[2]{0}) async-start(w), calls=async_rs
  ROOT rs-done = f32[2]{0} async-done(rs-start)
}
""")
    places = {n: (r["op"], r["computation"], r["in_loop"], r["executions"]) for n, r in run.records.items()}
    assert places == {
        "permute.9": ("collective-permute", "body", True, 5),
        "rs-start": ("reduce-scatter", "main", False, 1),
    }
    assert run.records["rs-start"]["rule"] == "unconsidered-op"


def test_ops_are_numbered_apart_and_the_same_on_every_run() -> None:
    proto = to_proto(SYNC)
    first, second = run_pass(proto).after, run_pass(proto).after
    assert first.proto == second.proto
    assert first.arguments("permute.2")["op"] != first.arguments("all-reduce.3")["op"]


def test_rings_are_the_groups_of_a_permute() -> None:
    (record,) = run_pass(module_with(permute(pairs="{{0,1},{1,0},{2,3}}"))).records.values()
    assert (record["num_groups"], record["group_size"], record["num_pairs"]) == (2, 2, 3)


@pytest.mark.parametrize("lowering", ["cpu", "gpu"])
def test_a_permute_of_one_array_is_lowered_for_both_platforms(lowering: str) -> None:
    assert run_pass(module_with(permute()), lowering).veto() is None


@pytest.mark.parametrize(
    ("op", "operand", "veto"),
    [
        (permute(), "f32[9]{0}", "operand and result 0 differ in shape or layout"),
        (permute("s4[8]{0}"), "s4[8]{0}", "s4 has no whole-byte elements"),
        (permute(pairs="{{0,1},{2,1}}"), "f32[8]{0}", "device 1 is the target of two pairs"),
        (permute("f32[<=8]{0}"), "f32[<=8]{0}", "it has dynamic dimensions"),
        (permute("f32[8]{0:S(5)}"), "f32[8]{0:S(5)}", "it works on host memory"),
    ],
)
def test_a_permute_that_cannot_be_replaced_is_vetoed_with_the_reason(op: str, operand: str, veto: str) -> None:
    assert run_pass(module_with(op, operand)).veto() == veto


def test_an_all_reduce_with_another_function_is_vetoed() -> None:
    veto = run_pass(module_with(all_reduce(), function="subtract")).veto()
    assert veto == "the reduction is not a plain sum, prod, min, max, and, or or xor"


def test_a_permute_of_slices_in_place_is_vetoed() -> None:
    module = decode(to_proto(module_with(permute())))
    (op,) = (i for c in module.computations for i in c.instructions if i.name == "op")
    op.dynamic_slice_sizes.append(1)
    assert run_pass(module.SerializeToString()).veto() == "it permutes slices in place"


def test_a_start_without_a_done_is_vetoed() -> None:
    start = "(f32[8]{0}, f32[8]{0}) collective-permute-start(p), channel_id=1, source_target_pairs={{0,1},{1,0}}"
    assert run_pass(module_with(start), "gpu").veto() == (
        "its start is not used by exactly one done in the same computation"
    )


def test_a_collective_that_could_run_twice_at_once_is_vetoed() -> None:
    veto = run_pass(f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
callee {{
  p = f32[8]{{0}} parameter(0)
  ROOT op = {permute()}
}}
ENTRY main {{
  p = f32[8]{{0}} parameter(0)
  first = f32[8]{{0}} call(p), to_apply=callee
  ROOT second = f32[8]{{0}} call(first), to_apply=callee
}}
""").veto()
    assert veto == "its computation is called from more than one place, so it could run twice at once"


def test_the_device_assignment_maps_ids_before_pes_do() -> None:
    module = decode(to_proto(module_with(permute(pairs="{{0,1}}"))))
    module.device_assignment.replica_count = 1
    module.device_assignment.computation_count = 4
    for device in (2, 0, 1, 3):  # of partitions 0, 1, ...
        module.device_assignment.computation_devices.add().replica_device_ids.append(device)
    # Devices 2 and 0 are PEs 1 and 3.
    assert run_pass(module.SerializeToString()).after.arguments("op")["pairs"] == "array<i64: 1, 3>"


@pytest.mark.parametrize(
    ("config", "backend", "reason"),
    [
        ('{"collective_backend_config":{"backend":"NVSHMEM"}}', "NVSHMEM", "stock XLA wrote backend NVSHMEM"),
        ('{"collective_backend_config":{"is_sync":true}}', "DEFAULT", "stock XLA wrote backend DEFAULT"),
        ("", "DEFAULT", "no backend is recorded, so XLA uses its default"),
    ],
)
def test_modules_of_stock_xla_gpu_show_what_its_assigner_wrote(config: str, backend: str, reason: str) -> None:
    (record,) = inspect(module_with(all_reduce(f", backend_config={config}" if config else "")))
    assert record["rule"] == "stock"
    assert (record["backend"], record["lowered"], record["reason"]) == (backend, backend, reason)


def test_custom_calls_of_the_user_are_left_alone() -> None:
    call = module_with('f32[8]{0} custom-call(p), custom_call_target="xla_shmem.something"')
    assert inspect(call) == []
    assert not run_pass(call).changed


# A branch with a permute, in a loop's body and at the top; and a loop with an all-reduce of its own.
CONTROL_FLOW = """
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
moved {
  m = f32[8]{0} parameter(0)
  ROOT in-branch = f32[8]{0} collective-permute(m), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
kept { ROOT k = f32[8]{0} parameter(0) }
moved2 {
  m2 = f32[8]{0} parameter(0)
  ROOT in-loop-branch = f32[8]{0} collective-permute(m2), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
kept2 { ROOT k2 = f32[8]{0} parameter(0) }
body {
  state = (s32[], f32[8]{0}) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[8]{0} get-tuple-element(state), index=1
  zero = s32[] constant(0)
  even = pred[] compare(i, zero), direction=EQ
  chosen = f32[8]{0} conditional(even, x, x), true_computation=moved2, false_computation=kept2
  in-loop = f32[8]{0} all-reduce(chosen), channel_id=3, replica_groups={{0,1,2,3}}, use_global_device_ids=true,
    to_apply=add
  ROOT next = (s32[], f32[8]{0}) tuple(i, in-loop)
}
condition {
  c = (s32[], f32[8]{0}) parameter(0)
  ci = s32[] get-tuple-element(c), index=0
  limit = s32[] constant(3)
  ROOT less = pred[] compare(ci, limit), direction=LT
}
ENTRY main {
  flag = pred[] parameter(0)
  p = f32[8]{0} parameter(1)
  branch = f32[8]{0} conditional(flag, p, p), true_computation=moved, false_computation=kept
  start = s32[] constant(0)
  initial = (s32[], f32[8]{0}) tuple(start, branch)
  loop = (s32[], f32[8]{0}) while(initial), condition=condition, body=body
  after = f32[8]{0} get-tuple-element(loop), index=1
  ROOT at-top = f32[8]{0} collective-permute(after), channel_id=4, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}
"""


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_branches_and_loops_have_the_usual_calls(platform: str) -> None:
    run = run_pass(CONTROL_FLOW, platform)
    names = ("in-branch", "in-loop-branch", "in-loop", "at-top")
    assert {name: run.after.target(name) for name in names} == {
        "in-branch": "xla_shmem.collective_permute",
        "in-loop-branch": "xla_shmem.collective_permute",
        "in-loop": "xla_shmem.all_reduce",
        "at-top": "xla_shmem.collective_permute",
    }
