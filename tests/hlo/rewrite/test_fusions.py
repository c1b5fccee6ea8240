"""Collectives in fusions, which XLA runs as a whole."""

from __future__ import annotations

from hlo_text import run_pass


def test_a_collective_in_a_fusion_is_recorded_and_stays() -> None:
    run = run_pass(
        """
HloModule jit_f, is_scheduled=true, num_partitions=4
fused {
  f = f32[8]{0} parameter(0)
  hidden = f32[8]{0} collective-permute(f), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT n = f32[8]{0} negate(hidden)
}
ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT fusion = f32[8]{0} fusion(p), kind=kCustom, calls=fused
}
""",
        "gpu",
    )
    assert run.records["hidden"]["lowered"] == "DEFAULT"
    assert run.records["hidden"]["veto"] == "it is part of a fusion"
    assert run.after.instruction("hidden") == run.before.instruction("hidden")


def test_of_an_all_reduce_in_a_fusion_the_veto_names_the_flag_that_keeps_it_apart() -> None:
    run = run_pass(
        """
HloModule jit_f, is_scheduled=true, num_partitions=4
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
fused {
  f = f32[8]{0} parameter(0)
  ROOT hidden = f32[8]{0} all-reduce(f), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true,
    to_apply=add
}
ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT fusion = f32[8]{0} fusion(p), kind=kCustom, calls=fused
}
""",
        "gpu",
    )
    flag = "--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false"
    veto = f"it is part of a fusion; in jax 0.12.0.1 {flag} keeps it apart"
    assert run.records["hidden"]["veto"] == veto
