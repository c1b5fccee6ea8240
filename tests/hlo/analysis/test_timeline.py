"""The order in which the instructions of a module run, by computation."""

from __future__ import annotations

import pytest
from hlo_text import run_pass, schedule, to_proto
from reference_proto import decode

from xla_shmem import _core

A = "f32[256]{0}"


def test_loops_are_listed_with_their_trips_and_wrappers_and_reductions_are_not() -> None:
    computations = schedule("""
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
body {
  p = f32[8]{0} parameter(0)
  ROOT ring = f32[8]{0} collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
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
    assert {name: (c["executions"], c["in_loop"]) for name, c in computations.items()} == {
        "body": (5, True),
        "cond": (6, True),
        "main": (1, False),
    }
    assert list(computations)[-1] == "main"
    main = computations["main"]["instructions"]
    assert (main["w"]["category"], main["w"]["called"]) == ("control", ["body", "cond"])
    assert (main["rs-start"]["category"], main["rs-start"]["called"]) == ("collective", [])
    assert main["rs-done"]["start"] == "rs-start"


ORDERED = """
HloModule m, is_scheduled=true
ENTRY main {
  p = f32[] parameter(0)
  b = f32[] sine(p)
  a = f32[] negate(p)
  ROOT c = f32[] add(a, b)
}
"""


def test_a_scheduled_computation_is_listed_in_the_order_of_the_schedule() -> None:
    main = schedule(ORDERED)["main"]
    assert main["scheduled"]
    assert list(main["instructions"]) == ["p", "b", "a", "c"]


def test_instructions_that_the_schedule_repeats_or_that_do_not_exist_are_skipped() -> None:
    module = decode(to_proto(ORDERED))
    (sequence,) = module.schedule.sequences.values()
    ids = list(sequence.instruction_ids)
    sequence.instruction_ids[:] = [*ids[:3], ids[2], 99, ids[3]]
    (main,) = _core.schedule(module.SerializeToString())
    assert [i["name"] for i in main["instructions"]] == ["p", "b", "a", "c"]


def test_without_a_schedule_the_order_is_that_of_the_module() -> None:
    module = decode(to_proto(ORDERED))
    module.ClearField("schedule")
    (main,) = _core.schedule(module.SerializeToString())
    assert not main["scheduled"]
    assert [i["name"] for i in main["instructions"]] == [i.name for i in module.computations[0].instructions]


def pair(start: str, done: str) -> str:
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
async {{
  q = {A} parameter(0)
  ROOT op = {A} collective-permute(q), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}
}}
ENTRY main {{
  p = {A} parameter(0)
  start = {start}
  work = {A} sine(p)
  ROOT done = {done}
}}
"""


NATIVE = pair(
    f"({A}, {A}) collective-permute-start(p), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}",
    f"{A} collective-permute-done(start)",
)
GENERIC = pair(f"(({A}), {A}) async-start(p), calls=async", f"{A} async-done(start)")
LOWERED = pair(
    f'{A} custom-call(p), custom_call_target="xla_shmem.permute_start"',
    f'{A} custom-call(start), custom_call_target="xla_shmem.permute_done"',
)


@pytest.mark.parametrize("text", [NATIVE, GENERIC, LOWERED], ids=["native", "generic", "lowered"])
def test_a_done_knows_its_start(text: str) -> None:
    computations = schedule(text)
    assert list(computations) == ["main"]
    main = computations["main"]["instructions"]
    assert main["done"]["start"] == "start"
    assert main["work"]["start"] is None
    for name in ("start", "done"):
        assert (main[name]["category"], main[name]["flops"]) == ("collective", 0)


def test_a_start_reads_and_its_done_writes() -> None:
    main = schedule(NATIVE)["main"]["instructions"]
    assert (main["start"]["bytes"], main["done"]["bytes"]) == (1024, 1024)


def test_the_pair_that_the_pass_writes_is_linked_too() -> None:
    (main,) = _core.schedule(run_pass(GENERIC, "gpu").after.proto)
    starts = {i["name"]: i["start"] for i in main["instructions"]}
    assert starts == {"p": None, "start": None, "work": None, "done": "start"}


def test_compute_in_an_async_wrapper_counts_where_it_starts() -> None:
    computations = schedule(f"""
HloModule jit_f, is_scheduled=true
wrapped {{
  q = {A} parameter(0)
  ROOT s = {A} sine(q)
}}
ENTRY main {{
  p = {A} parameter(0)
  start = (({A}), {A}) async-start(p), calls=wrapped
  ROOT done = {A} async-done(start)
}}
""")
    assert list(computations) == ["main"]
    start, done = (computations["main"]["instructions"][name] for name in ("start", "done"))
    assert (start["category"], start["flops"], start["bytes"]) == ("compute", 256, 2048)
    assert (done["flops"], done["bytes"], done["start"]) == (0, 0, "start")


def test_bytes_that_are_no_module_are_refused() -> None:
    with pytest.raises(ValueError, match="not a well-formed HloModuleProto"):
        _core.schedule(b"\xff")
