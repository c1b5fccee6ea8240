"""Collectives in fusions: one that is all that its fusion does is taken out, any other stays."""

from __future__ import annotations

import pytest
from hlo_text import explain, inspect, run_pass, to_proto

from xla_shmem import _core

FULL, FLAT = "f32[2,4]{1,0}", "f32[8]{0}"
SUM = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add"
METADATA = 'metadata={op_name="jit(f)/psum" source_file="train.py" source_line=7}'
KIND = '"fusion_backend_config":{"kind":"__triton_collective"}'


def strategy(kernel: str) -> str:
    """What XLA:GPU writes beside an all-reduce that a kernel of its own runs."""
    return f'backend_config={{"collective_backend_config":{{"kernel_strategy":"KERNEL_STRATEGY_TRITON_{kernel}"}}}}'


#: As jax 0.12.0.1 writes a sum that its two-shot kernel runs.
FUSED = f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
fused {{
  f = {FLAT} parameter(0)
  ROOT sum = {FLAT} all-reduce(f), {SUM}, {METADATA}, {strategy("TWO_SHOT")}
}}
async {{
  q = {FLAT} parameter(0)
  ROOT fusion = {FLAT} fusion(q), kind=kCustom, calls=fused, {METADATA}, backend_config={{{KIND}}}
}}
ENTRY main {{
  p = {FULL} parameter(0)
  n = {FULL} negate(p)
  flat = {FLAT} bitcast(n)
  start = (({FLAT}), {FLAT}) async-start(flat), calls=async, control-predecessors={{n}}, {METADATA},
    frontend_attributes={{mine="kept"}}, backend_config={{{KIND}}}
  BETWEEN
  done = {FLAT} async-done(start), {METADATA}, backend_config={{{KIND}}}
  result = {FULL} bitcast(done)
  ROOT both = ({FULL}, {FULL}) tuple(result, n)
}}
"""
ALONE = FUSED.replace("BETWEEN", "")
WORK = FUSED.replace("BETWEEN", f"work = {FULL} multiply(n, n)")
FFI = "custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI"


def synchronous(fused: str, fusion: str = f"fusion(n), kind=kCustom, calls=fused, backend_config={{{KIND}}}") -> str:
    """Without an async-start; the fusion's computation has these instructions on the parameter f."""
    return f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
fused {{
  f = {FLAT} parameter(0)
  {fused}
}}
ENTRY main {{
  p = {FLAT} parameter(0)
  n = {FLAT} negate(p)
  ROOT fusion = {FLAT} {fusion}
}}
"""


PERMUTED = f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
fused {{
  f = {FLAT} parameter(0)
  g = {FLAT} parameter(1)
  ROOT sums = ({FLAT}, {FLAT}) all-reduce(g, f), {SUM}
}}
ENTRY main {{
  p = {FLAT} parameter(0)
  n = {FLAT} negate(p)
  ROOT fusion = ({FLAT}, {FLAT}) fusion(p, n), kind=kCustom, calls=fused
}}
"""


ONLY_SUM = f"ROOT sum = {FLAT} all-reduce(f), {SUM}, {strategy('ONE_SHOT')}"


def test_a_fused_sum_with_nothing_beside_it_becomes_one_call() -> None:
    run = run_pass(ALONE, "gpu")
    (record,) = run.records.values()
    expected = {"name": "start", "op": "all-reduce", "lowered": "NVSHMEM", "veto": None, "bytes": 32, "group_size": 4}
    assert expected.items() <= record.items()
    assert (record["computation"], record["source_file"], record["source_line"]) == ("main", "train.py", 7)
    assert run.after.instruction("start").startswith(
        f'{FLAT} custom-call(flat), custom_call_target="xla_shmem.all_reduce", {FFI}, control-predecessors={{n}}'
    )
    assert run.after.instruction("done").startswith(f"{FLAT} opt-barrier(start)")
    assert run.after.attributes("start")["mine"] == "kept"
    assert run.after.arguments("start")["reduction"] == '"sum"'
    assert run.after.names() == run.before.names()


def test_a_fused_sum_beside_work_becomes_a_pair_whose_operand_lives_until_the_done() -> None:
    run = run_pass(WORK, "gpu")
    assert run.after.instruction("start").startswith(
        f'{FLAT} custom-call(flat), custom_call_target="xla_shmem.all_reduce_start", {FFI}'
    )
    done = run.after.instruction("done")
    assert done.startswith(f'{FLAT} custom-call(start, flat), custom_call_target="xla_shmem.all_reduce_done"')
    assert "output_to_operand_aliasing" not in run.after.instruction("start")
    assert "output_to_operand_aliasing={{}: (0, {})}" in done


def test_a_start_may_work_in_its_operand() -> None:
    run = run_pass(WORK.replace("calls=async,", "calls=async, output_to_operand_aliasing={{1}: (0, {})},"), "gpu")
    assert "output_to_operand_aliasing={{}: (0, {})}" in run.after.instruction("start")
    assert run.after.instruction("done").startswith(f"{FLAT} custom-call(start), ")


def test_a_fused_sum_without_a_pair_becomes_one_call() -> None:
    run = run_pass(synchronous(ONLY_SUM), "gpu")
    assert run.records["fusion"]["lowered"] == "NVSHMEM"
    assert run.after.instruction("fusion") == (
        f'{FLAT} custom-call(n), custom_call_target="xla_shmem.all_reduce", {FFI}'
    )


@pytest.mark.parametrize("module", [ALONE, WORK, synchronous(ONLY_SUM)])
def test_one_over_the_limit_changes_in_its_attributes_only(module: str) -> None:
    run = run_pass(module, "gpu", ops=[("all-reduce", 32)])
    (record,) = run.records.values()
    assert (record["lowered"], record["rule"]) == ("DEFAULT", "size")
    names = ("sum", "start", "done") if "start = " in module else ("sum", "fusion")
    assert [run.after.instruction(name) for name in names] == [run.before.instruction(name) for name in names]
    assert run.after.attributes("sum")["rule"] == "size"
    assert run.after.attributes(names[-1]).get("rule") == ("size" if "start" in names else None)


@pytest.mark.parametrize("module", [ALONE, WORK, synchronous(ONLY_SUM)])
def test_one_that_is_not_considered_stays_bit_for_bit(module: str) -> None:
    run = run_pass(module, "gpu", ops=[("collective-permute", None)])
    assert not run.changed
    (record,) = run.records.values()
    assert record["rule"] == "unconsidered-op"


@pytest.mark.parametrize(
    ("module", "veto"),
    [
        (synchronous(f"sum = {FLAT} all-reduce(f), {SUM}\n  ROOT n2 = {FLAT} negate(sum)"), ", with negate"),
        (synchronous(f"n1 = {FLAT} negate(f)\n  ROOT sum = {FLAT} all-reduce(n1), {SUM}"), ", with negate"),
        (
            synchronous(
                f"c = f32[] constant(1)\n  d = {FLAT} broadcast(c), dimensions={{}}\n"
                f"  ROOT sum = {FLAT} all-reduce(d), {SUM}"
            ),
            ", with broadcast, constant",
        ),
        (PERMUTED, " that does not pass its operands on in their order"),
    ],
)
def test_one_in_a_fusion_that_does_more_is_recorded_and_stays(module: str, veto: str) -> None:
    run = run_pass(module, "gpu")
    assert run.veto() == "it is part of a fusion" + veto
    (record,) = run.records.values()
    assert record["computation"] == "fused"
    assert run.after.instruction(record["name"]) == run.before.instruction(record["name"])


def test_one_whose_async_computation_does_more_stays() -> None:
    module = ALONE.replace("ROOT fusion =", "fusion =").replace(
        "\n}\nENTRY", f"\n  ROOT more = {FLAT} negate(fusion)\n}}\nENTRY"
    )
    assert run_pass(module, "gpu").veto() == "its async computation holds more than the collective"


def test_one_whose_fusion_shares_buffers_stays() -> None:
    module = synchronous(ONLY_SUM).replace("calls=fused,", "calls=fused, output_to_operand_aliasing={{}: (0, {})},")
    assert run_pass(module, "gpu").veto() == "its fusion shares buffers in a way that is not known here"


def test_two_fusions_that_share_a_computation_stay() -> None:
    twice = "fusion(first), kind=kCustom, calls=fused"
    module = synchronous(ONLY_SUM, twice).replace(
        f"n = {FLAT} negate(p)", f"n = {FLAT} negate(p)\n  first = {FLAT} fusion(n), kind=kCustom, calls=fused"
    )
    veto = run_pass(module, "gpu").veto()
    assert veto == "its computation is called from more than one place, so it could run twice at once"


def test_a_fusion_in_a_fusion_stays() -> None:
    outer = f"outer {{\n  o = {FLAT} parameter(0)\n  ROOT i = {FLAT} fusion(o), kind=kCustom, calls=fused\n}}\nENTRY"
    module = synchronous(ONLY_SUM, "fusion(n), kind=kCustom, calls=outer").replace("ENTRY", outer)
    assert run_pass(module, "gpu").veto() == "it is part of a fusion"


def test_other_collectives_come_out_of_fusions_too() -> None:
    permute = f"ROOT ring = {FLAT} collective-permute(f), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}"
    run = run_pass(synchronous(permute), "gpu")
    assert run.after.target("fusion") == "xla_shmem.collective_permute"


def test_a_fused_sum_across_domains_is_not_divided() -> None:
    transport = _core.gpu_transport({i: i // 2 for i in range(4)})
    run = run_pass(ALONE, "gpu", transport=transport, hierarchical="on")
    (record,) = run.records.values()
    assert record["lowered"] == "DEFAULT"
    assert record["veto"].endswith("; not divided: it is in a fusion")


def test_on_cpu_no_fusion_is_taken_apart() -> None:
    run = run_pass(synchronous(ONLY_SUM))
    assert run.veto() == "fusions are taken apart for GPU only"


@pytest.mark.parametrize(
    ("config", "kernel"),
    [(strategy("ONE_SHOT"), "one-shot kernel"), (strategy("TWO_SHOT"), "two-shot kernel"), ("", "kernel")],
)
def test_inspect_says_by_which_kernel_stock_xla_runs_it(config: str, kernel: str) -> None:
    (record,) = inspect(synchronous(f"ROOT sum = {FLAT} all-reduce(f), {SUM}" + (f", {config}" if config else "")))
    assert (record["rule"], record["lowered"]) == ("stock", "DEFAULT")
    assert record["reason"] == f"XLA runs it in a fusion, by its own {kernel}"


def test_explain_decides_as_the_pass_does() -> None:
    (explained,) = explain(to_proto(ALONE), "gpu")
    assert explained["decided"]["lowered"] == "NVSHMEM"
    assert explained["written"]["reason"] == "XLA runs it in a fusion, by its own two-shot kernel"
