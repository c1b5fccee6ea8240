"""All-to-alls of whole arrays, as XLA reads what the pass makes of them."""

from __future__ import annotations

import re

from jaxlib import _hlo
from text_modules import ALL, run, to_proto

from xla_shmem import _core

# What XLA:CPU makes of lax.all_to_all(x, ..., 0, 0, tiled=True): fusions or plain slices, then a concatenation.
CUT_MODULE = """
HloModule jit_c, is_scheduled=true, num_partitions=8
wrapped_slice { p = s32[4,6]{1,0} parameter(0)  ROOT s = s32[2,6]{1,0} slice(p), slice={[0:2], [0:6]} }
ENTRY main {
  x = s32[4,6]{1,0} parameter(0)
  low = s32[2,6]{1,0} fusion(x), kind=kLoop, calls=wrapped_slice
  high = s32[2,6]{1,0} slice(x), slice={[2:4], [0:6]}
  a2a = (s32[2,6]{1,0}, s32[2,6]{1,0}) all-to-all(low, high), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{7,6}},
    metadata={op_name="jit(f)/all_to_all" source_file="train.py" source_line=9}
  first = s32[2,6]{1,0} get-tuple-element(a2a), index=0
  second = s32[2,6]{1,0} get-tuple-element(a2a), index=1
  joined = s32[4,6]{1,0} concatenate(first, second), dimensions={0}
  ROOT out = s32[4,6]{1,0} add(joined, x)
}
"""


def test_xla_reads_a_module_whose_slices_and_concatenation_are_gone() -> None:
    result = run(to_proto(CUT_MODULE), **ALL)
    assert result.module is not None
    loaded = _hlo.HloModule.from_serialized_hlo_module_proto(result.module)
    printed = loaded.to_string()
    assert "is_scheduled=true" in printed
    assert "wrapped_slice" not in printed
    entry = printed[printed.index("ENTRY") :]
    assert re.findall(r"^\s+(?:ROOT )?%?([\w.]+) = ", entry, re.M) == ["x", "a2a", "out"]
    assert re.search(r"a2a = s32\[4,6\]\{1,0\} custom-call\(.*x\), custom_call_target=\"xla_shmem.all_to_all\"", entry)
    assert re.search(r"add\(.*a2a, .*x\)", entry)
    assert run(loaded.as_serialized_hlo_module_proto(), **ALL).module is None
    (record,) = result.records
    assert (record["name"], record["bytes"], record["lowered"]) == ("a2a", 96, "NVSHMEM")
    assert (record["source_file"], record["source_line"]) == ("train.py", 9)
    assert _core.inspect_module(result.module) == result.records
