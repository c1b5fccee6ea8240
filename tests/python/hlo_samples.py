"""HLO modules for the tests of the commands."""

from __future__ import annotations

#: A module of XLA:CPU, with synchronous ops: a 4 KiB and a 16 MiB all-reduce, and a permute in a loop.
CPU_SYNC = """\
HloModule jit_step, is_scheduled=true, num_partitions=4

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

%body (state: (s32[], f32[1024])) -> (s32[], f32[1024]) {
  %state = (s32[], f32[1024]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[1024]{0} get-tuple-element(%state), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %permute = f32[1024]{0} collective-permute(%x), channel_id=1, \
source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT %result = (s32[], f32[1024]{0}) tuple(%next, %permute)
}

%condition (state.1: (s32[], f32[1024])) -> pred[] {
  %state.1 = (s32[], f32[1024]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%state.1), index=0
  %limit = s32[] constant(8)
  ROOT %less = pred[] compare(%i.1, %limit), direction=LT
}

ENTRY %main (p0: f32[1024], p1: f32[4194304]) -> f32[1024] {
  %p0 = f32[1024]{0} parameter(0)
  %p1 = f32[4194304]{0} parameter(1)
  %small = f32[1024]{0} all-reduce(%p0), channel_id=2, replica_groups={{0,1,2,3}}, \
use_global_device_ids=true, to_apply=%sum
  %large = f32[4194304]{0} all-reduce(%p1), channel_id=3, replica_groups=[2,2]<=[4], \
use_global_device_ids=true, to_apply=%sum
  %zero = s32[] constant(0)
  %init = (s32[], f32[1024]{0}) tuple(%zero, %small)
  %loop = (s32[], f32[1024]{0}) while(%init), condition=%condition, body=%body
  %head = f32[1024]{0} slice(%large), slice={[0:1024]}
  %looped = f32[1024]{0} get-tuple-element(%loop), index=1
  ROOT %out = f32[1024]{0} add(%looped, %head)
}
"""


#: One synchronous all-gather over two devices.
ALL_GATHER = """\
HloModule jit_gather, is_scheduled=true, num_partitions=2

ENTRY %main (p: f32[8]) -> f32[16] {
  %p = f32[8]{0} parameter(0)
  ROOT %gather = f32[16]{0} all-gather(%p), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, dimensions={0}
}
"""


def gpu_start_done(backend: str | None) -> str:
    """Returns a module of XLA:GPU with two start/done pairs. Only the first one overlaps with work.

    XLA of jax 0.7.2 to 0.10.1 writes a `backend`; other releases do not.
    """
    field = "" if backend is None else f',"backend":"{backend}"'
    config = (
        f'{{"collective_backend_config":{{"is_sync":false,"is_pipelined":false{field}}},"wait_on_operation_queues":[]}}'
    )
    return f"""\
HloModule jit_ring, is_scheduled=true, num_partitions=8

%sum (a: bf16[], b: bf16[]) -> bf16[] {{
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %add = bf16[] add(%a, %b)
}}

ENTRY %main (p: bf16[8,1024]) -> bf16[8,1024] {{
  %p = bf16[8,1024]{{1,0}} parameter(0)
  %permute-start = (bf16[8,1024]{{1,0}}, bf16[8,1024]{{1,0}}) collective-permute-start(%p), channel_id=1, \
source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,4}},{{4,5}},{{5,6}},{{6,7}},{{7,0}}}}, \
backend_config={config}
  %square = bf16[8,1024]{{1,0}} multiply(%p, %p)
  %permute-done = bf16[8,1024]{{1,0}} collective-permute-done(%permute-start)
  %reduce-start = bf16[8,1024]{{1,0}} all-reduce-start(%permute-done), channel_id=2, \
replica_groups={{{{0,1,2,3}},{{4,5,6,7}}}}, use_global_device_ids=true, to_apply=%sum, backend_config={config}
  ROOT %reduce-done = bf16[8,1024]{{1,0}} all-reduce-done(%reduce-start)
}}
"""


#: A module of XLA:GPU in jax 0.11.2 and 0.12.0.1: a permute in a generic async pair, and a synchronous all-reduce.
GPU_GENERIC_ASYNC = """\
HloModule jit_body, is_scheduled=true, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

%async_computation (p.1: f32[256]) -> f32[256] {
  %p.1 = f32[256]{0} parameter(0)
  ROOT %ppermute = f32[256]{0} collective-permute(%p.1), channel_id=1, source_target_pairs={{0,1},{1,0}}
}

ENTRY %main (p: f32[256]) -> f32[256] {
  %p = f32[256]{0} parameter(0)
  %permute-start = ((f32[256]{0}), f32[256]{0}) async-start(%p), calls=%async_computation, \
backend_config={"collective_backend_config":{"backend":"DEFAULT"}}
  %permute-done = f32[256]{0} async-done(%permute-start)
  ROOT %psum = f32[256]{0} all-reduce(%permute-done), channel_id=2, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=%sum, backend_config={"collective_backend_config":{"backend":"DEFAULT"}}
}
"""

#: A module without a collective, which does not contain its number of devices.
NO_COLLECTIVE = "HloModule m\n\nENTRY %e {\n  ROOT %c = f32[] constant(1)\n}\n"

#: A program as `lowered.as_text()` prints it, which is StableHLO and not HLO.
STABLEHLO = """\
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<f32>) -> tensor<f32> { return %arg0 : tensor<f32> }
}
"""


def many_collectives(count: int, devices: int = 64) -> str:
    """Returns a module of XLA:GPU: permutes that overlap with matrix products, and all-reduces over groups of eight.

    Every third collective is an all-reduce. Sizes are 4 KiB to 16 MiB. Half of all are in a loop of 8 turns.
    """
    ring = ",".join(f"{{{device},{(device + 1) % devices}}}" for device in range(devices))
    eights = ",".join(
        "{" + ",".join(str(first + member) for member in range(8)) + "}" for first in range(0, devices, 8)
    )

    def steps(first: int, last: int) -> list[str]:
        lines = []
        for number in range(first, last):
            size = 2 ** (10 + number % 13)
            shape = f"f32[{size}]{{0}}"
            lines.append(f"%b.{number} = {shape} broadcast(%s), dimensions={{}}")
            if number % 3 == 2:
                lines.append(
                    f"%sum.{number} = {shape} all-reduce(%b.{number}), channel_id={number + 1}, "
                    f"replica_groups={{{eights}}}, use_global_device_ids=true, to_apply=%add"
                )
                continue
            lines += [
                f"%move-start.{number} = ({shape}, {shape}) collective-permute-start(%b.{number}), "
                f"channel_id={number + 1}, source_target_pairs={{{ring}}}",
                f"%dot.{number} = f32[64,64]{{1,0}} dot(%m, %m), "
                "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                f"%move-done.{number} = {shape} collective-permute-done(%move-start.{number})",
            ]
        return lines

    def block(lines: list[str]) -> str:
        return "\n".join(f"  {line}" for line in lines)

    return f"""\
HloModule jit_many, is_scheduled=true, num_partitions={devices}

%add (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}}

%body (p: (s32[], f32[], f32[64,64])) -> (s32[], f32[], f32[64,64]) {{
  %p = (s32[], f32[], f32[64,64]{{1,0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %s = f32[] get-tuple-element(%p), index=1
  %m = f32[64,64]{{1,0}} get-tuple-element(%p), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
{block(steps(0, count // 2))}
  ROOT %state = (s32[], f32[], f32[64,64]{{1,0}}) tuple(%next, %s, %m)
}}

%condition (p.1: (s32[], f32[], f32[64,64])) -> pred[] {{
  %p.1 = (s32[], f32[], f32[64,64]{{1,0}}) parameter(0)
  %i.1 = s32[] get-tuple-element(%p.1), index=0
  %turns = s32[] constant(8)
  ROOT %less = pred[] compare(%i.1, %turns), direction=LT
}}

ENTRY %main (s: f32[], m: f32[64,64]) -> f32[] {{
  %s = f32[] parameter(0)
  %m = f32[64,64]{{1,0}} parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[], f32[64,64]{{1,0}}) tuple(%zero, %s, %m)
  %loop = (s32[], f32[], f32[64,64]{{1,0}}) while(%init), condition=%condition, body=%body, \
backend_config={{"known_trip_count":{{"n":"8"}}}}
{block(steps(count // 2, count))}
  ROOT %out = f32[] get-tuple-element(%loop), index=1
}}
"""
