"""What a program of XLA:GPU has if several of its devices belong to one process: a call with which it begins, and calls
in loops that CUDA graphs do not hold."""

from __future__ import annotations

import re

import pytest
from hlo_text import PassRun, run_pass
from reference_proto import decode

from xla_shmem import _core

A = "f32[8]{0}"
GROUPS = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
#: Device i is PE 3 - i; 0 and 2 are those of process 0.
TOPOLOGY = _core.Topology([(i, i % 2, 0, 0, 3 - i) for i in range(4)])
TRANSPORT = _core.gpu_transport({i: 0 for i in range(4)})
ALL_REDUCE = f"{A} all-reduce(p0), channel_id=1, {GROUPS}, to_apply=add"
PAIR = f"""s = {A} all-reduce-start(p0), channel_id=1, {GROUPS}, to_apply=add
  ROOT d = {A} all-reduce-done(s)"""
IN_LOOP = f"""ROOT w = {A} while(p0), condition=never, body=yes"""
COUNTED = ', backend_config={"known_trip_count":{"n":"3"}}'
IN_BRANCH = f"""ROOT c = {A} conditional(p1, p0, p0), true_computation=yes, false_computation=no"""


def module_with(body: str, *, partitions: int = 4) -> str:
    """main(p0, p1) with these instructions, and branches, of which one has an all-reduce."""
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions={partitions}
add {{ l = f32[] parameter(0)  m = f32[] parameter(1)  ROOT sum = f32[] add(l, m) }}
yes {{
  y0 = {A} parameter(0)
  ys = {A} all-reduce-start(y0), channel_id=1, {GROUPS}, to_apply=add
  ROOT yd = {A} all-reduce-done(ys)
}}
no {{ ROOT n0 = {A} parameter(0) }}
never {{
  c0 = {A} parameter(0)
  ROOT c = pred[] constant(false)
}}
ENTRY main {{
  p0 = {A} parameter(0)
  p1 = pred[] parameter(1)
  {body}
}}
"""


def on_two_devices(*devices: int) -> bytes:
    """main as PAIR has it, assigned to these devices."""
    module = decode(on_gpu(module_with(PAIR, partitions=2).replace("{0,1,2,3}", "{0,1}"), ops=[]).before.proto)
    for device in devices:
        module.device_assignment.computation_devices.add().replica_device_ids.append(device)
    module.device_assignment.replica_count = 1
    module.device_assignment.computation_count = 2
    serialized: bytes = module.SerializeToString()
    return serialized


def on_gpu(module: str | bytes, **options: object) -> PassRun:
    return run_pass(module, **{"lowering": "gpu", "topology": TOPOLOGY, "transport": TRANSPORT, **options})


def calls(run: PassRun) -> list[str]:
    return [name for name in run.after.names() if name.startswith("xla_shmem_meet.")]


@pytest.mark.parametrize("body", [PAIR, IN_BRANCH])
def test_the_call_comes_first_and_lists_the_pes_of_each_process(body: str) -> None:
    run = on_gpu(module_with(body))
    (call,) = calls(run)
    assert run.after.names()[0] == call
    assert run.after.names()[1:] == run.before.names()
    assert run.after.instruction(call) == (
        '() custom-call(), custom_call_target="xla_shmem.meet", custom_call_has_side_effect=true, '
        "api_version=API_VERSION_TYPED_FFI"
    )
    arguments = run.after.arguments(call)
    assert arguments.pop("topology") == str(TOPOLOGY.fingerprint)
    assert int(arguments.pop("op")) != 0
    assert arguments == {
        "module": '"jit_f"',
        "name": '"the program"',
        "group_offsets": "array<i64: 0, 2, 4>",
        "groups": "array<i64: 3, 1, 2, 0>",
    }
    assert len(run.records) == 1


def test_a_program_with_one_device_of_each_process_has_no_call() -> None:
    run = on_gpu(on_two_devices(1, 2), profile="domain")
    assert [record["lowered"] for record in run.records.values()] == ["NVSHMEM"]
    assert not calls(run)


@pytest.mark.parametrize(
    "options",
    [
        {"topology": _core.Topology([(i, i, 0, 0, i) for i in range(4)])},
        {"ops": [("all-reduce", 0)]},
        {"lowering": "none"},
    ],
)
def test_no_call_with_one_device_a_process_or_where_nothing_is_replaced(options: dict[str, object]) -> None:
    assert not calls(on_gpu(module_with(PAIR), **options))


def test_xla_cpu_needs_no_call() -> None:
    run = on_gpu(
        module_with(f"ROOT r = {ALL_REDUCE}"), lowering="cpu", transport=_core.cpu_transport({i: 0 for i in range(4)})
    )
    assert run.after.target("r") == "xla_shmem.all_reduce"
    assert not calls(run)


@pytest.mark.parametrize(
    ("body", "on_all"), [(PAIR, True), (IN_LOOP + COUNTED, True), (IN_LOOP, False), (IN_BRANCH, False)]
)
def test_a_call_says_whether_all_devices_of_the_job_run_it_equally_often(body: str, on_all: bool) -> None:
    run = on_gpu(module_with(body))
    assert on_all_of(run) == ("1" if on_all else None)


def test_graphs_hold_calls_in_branches_and_none_in_loops() -> None:
    assert targets(on_gpu(module_with(IN_BRANCH))) == ["xla_shmem.all_reduce"]
    assert targets(on_gpu(module_with(IN_LOOP))) == ["xla_shmem.all_reduce_in_loop"]


def test_graphs_hold_no_call_of_a_branch_in_a_loop() -> None:
    branch = IN_BRANCH.replace("p1, p0, p0", "o, x0, x0")
    body = f"turn {{ x0 = {A} parameter(0)  o = pred[] constant(true)  {branch} }}"
    module = module_with(IN_LOOP.replace("body=yes", "body=turn")).replace("ENTRY", f"{body}\nENTRY")
    assert targets(on_gpu(module)) == ["xla_shmem.all_reduce_in_loop"]


def test_a_pair_in_a_loop_keeps_its_targets() -> None:
    # Nothing overlaps with the only instructions of a loop, so it needs another one between start and done.
    module = module_with(IN_LOOP).replace("  ROOT yd", f"  ym = {A} multiply(y0, y0)\n  ROOT yd")
    assert targets(on_gpu(module)) == ["xla_shmem.all_reduce_start", "xla_shmem.all_reduce_done"]


def test_only_the_target_of_a_call_in_a_loop_changes() -> None:
    several = on_gpu(module_with(IN_LOOP))
    (name,) = several.records
    in_branch = on_gpu(module_with(IN_BRANCH))
    assert several.after.instruction(name) == in_branch.after.instruction(name).replace("reduce", "reduce_in_loop")
    assert several.after.arguments(name).keys() == in_branch.after.arguments(name).keys()
    again = on_gpu(several.after.proto)
    assert again.records == several.records
    assert targets(again) == targets(several)


def targets(run: PassRun) -> list[str]:
    """Those of all calls that stand for collectives or parts of them."""
    return re.findall(r'custom_call_target="(xla_shmem\.(?!meet)[^"]*)"', run.after.text)


def on_all_of(run: PassRun) -> str | None:
    """What the call of the module's only collective says."""
    (name,) = run.records
    assert run.after.target(name).startswith("xla_shmem.all_reduce")
    return run.after.arguments(name).get("on_all")
