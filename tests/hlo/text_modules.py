"""Modules as HLO text, and the pass run on them."""

from __future__ import annotations

from typing import Any

from jaxlib import _hlo

from xla_shmem import _core

N = 8

CPU_MODULE = """
HloModule jit_f, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, num_partitions=8
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT r = bf16[] maximum(a, b) }
body {
  p = (s32[], f32[16]{0}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[16]{0} get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ring = f32[16]{0} collective-permute(x), channel_id=3, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT t = (s32[], f32[16]{0}) tuple(next, ring)
}
cond {
  p = (s32[], f32[16]{0}) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT lt = pred[] compare(i, n), direction=LT
}
ENTRY main {
  p0 = f32[16]{0} parameter(0), sharding={replicated}
  p1 = bf16[32]{0} parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[16]{0}) tuple(zero, p0)
  w = (s32[], f32[16]{0}) while(t), condition=cond, body=body
  x = f32[16]{0} get-tuple-element(w), index=1
  ar = (f32[16]{0}, f32[16]{0}) all-reduce(x, p0), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0),
    use_global_device_ids=true, to_apply=add,
    metadata={op_name="jit(f)/psum" source_file="train.py" source_line=7}, frontend_attributes={mine="kept"}
  mx = bf16[32]{0} all-reduce(p1), channel_id=2, replica_groups={{0,1,2,3,4,5,6,7}},
    use_global_device_ids=true, to_apply=max, control-predecessors={ar}
  ag = bf16[256]{0} all-gather(mx), channel_id=4, replica_groups={{0,1,2,3,4,5,6,7}},
    use_global_device_ids=true, dimensions={0}
  y = f32[16]{0} get-tuple-element(ar), index=0
  ROOT out = (f32[16]{0}, bf16[256]{0}) tuple(y, ag)
}
"""

GPU_MODULE = """
HloModule jit_g, is_scheduled=true, num_partitions=8
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  p0 = f32[16]{0} parameter(0)
  p1 = f32[8]{0} parameter(1)
  cps = (f32[16]{0}, f32[16]{0}) collective-permute-start(p0), channel_id=1, source_target_pairs={{0,1},{1,0}}
  c0 = f32[16]{0} copy(p0)
  c1 = f32[8]{0} copy(p1)
  ars = (f32[16]{0}, f32[8]{0}) all-reduce-start(c0, c1), channel_id=2, replica_groups={}, to_apply=add
  cpd = f32[16]{0} collective-permute-done(cps)
  ard = (f32[16]{0}, f32[8]{0}) all-reduce-done(ars)
  a = f32[16]{0} get-tuple-element(ard), index=0
  ROOT s = f32[16]{0} add(a, cpd)
}
"""

# Every op that XLA_SHMEM_OPS can list, with two layouts and all dimensions where layout assignment puts them.
LISTED_MODULE = """
HloModule jit_h, is_scheduled=true, num_partitions=8
xor { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT r = s32[] xor(a, b) }
ENTRY main {
  p0 = s32[4,6]{1,0} parameter(0)
  p1 = s32[4,6]{0,1} parameter(1)
  ag0 = s32[16,6]{1,0} all-gather(p0), channel_id=1, replica_groups={{0,2,4,6},{7,5,3,1}}, use_global_device_ids=true,
    dimensions={0}, metadata={op_name="jit(f)/all_gather" source_file="train.py" source_line=8}
  ag1 = s32[4,12]{0,1} all-gather(p1), channel_id=1, replica_groups=[4,2]<=[8], use_global_device_ids=true,
    dimensions={1}, frontend_attributes={mine="kept"}
  rs = s32[2,6]{1,0} reduce-scatter(ag0), channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true,
    dimensions={0}, to_apply=xor
  a2a = (s32[4,6]{1,0}, s32[4,6]{1,0}) all-to-all(p0, p0), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{7,6}}
  one = s32[16,6]{1,0} all-to-all(ag0), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0},
    control-predecessors={a2a}
  cb = s32[16,6]{1,0} collective-broadcast(one), channel_id=1, replica_groups={{6,0,1}}
  x = s32[4,6]{1,0} get-tuple-element(a2a), index=0
  ROOT out = (s32[4,12]{0,1}, s32[2,6]{1,0}, s32[4,6]{1,0}, s32[16,6]{1,0}) tuple(ag1, rs, x, cb)
}
"""
ALL = {"ops": [(op, None) for op in ("all-gather", "reduce-scatter", "all-to-all", "collective-broadcast")]}


def to_proto(text: str) -> bytes:
    proto: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


def topology(devices: int = N) -> _core.Topology:
    """One device per process, PEs in reverse so that they are not mistaken for ids."""
    return _core.Topology([(i, i, 0, 0, devices - 1 - i) for i in range(devices)])


def run(proto: bytes, lowering: str = "cpu", **options: Any) -> _core.PassResult:
    return _core.run_pass(
        proto, topology(), _core.cpu_transport({i: 0 for i in range(N)}), lowering=lowering, **options
    )
