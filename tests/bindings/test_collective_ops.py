"""Lists of collectives in Python and in C++ agree with the table in xla_patch/types/collective_op.h."""

from __future__ import annotations

from xla_shmem import _core
from xla_shmem.options import values

OPS = _core.collective_ops()
#: Calls for parts of collectives that are divided by NVLink domain (xla_patch/types/part_target.h).
PART_TARGETS = {
    f"xla_shmem.{name}_parts"
    for name in (
        "reduce_scatter",
        "all_gather",
        "all_to_all",
        "reduce",
        "collective_permute",
        "collective_broadcast",
    )
}
GPU_PART_TARGETS = {
    f"xla_shmem.{name}_parts" for name in ("reduce_scatter", "all_gather", "all_to_all", "collective_permute")
}
#: Of the calls around collectives of the default backend (hlo/rewrite/marks.h).
MARK_TARGETS = {"xla_shmem.begin", "xla_shmem.end"}
#: Of the call with which a program begins (hlo/rewrite/several_gpus.h).
MEET_TARGET = "xla_shmem.meet"


def test_the_option_ops_lists_the_ops_that_a_platform_carries_in_the_order_of_the_table() -> None:
    assert tuple(op["name"] for op in OPS if op["on_cpu"] or op["on_gpu"]) == values.OPS


def test_the_aliases_of_op_names_are_the_short_names_of_the_table() -> None:
    assert {op["short_name"]: op["name"] for op in OPS if op["short_name"]} == values.OP_ALIASES


def test_the_ops_that_reduce_and_an_op_of_each_shape_rule() -> None:
    assert {op["name"] for op in OPS if op["reduces"]} == {"all-reduce", "reduce-scatter"}
    examples = {
        "collective-permute": "same",
        "all-gather": "gathered",
        "reduce-scatter": "scattered",
        "all-to-all": "exchanged",
        "ragged-all-to-all": "ragged",
    }
    assert {op["name"]: op["shapes"] for op in OPS if op["name"] in examples} == examples


def test_every_call_target_has_one_handler_on_each_platform_that_the_op_is_lowered_for() -> None:
    on_cpu = {op["targets"][0] for op in OPS if op["on_cpu"]} | PART_TARGETS
    on_gpu = {target for op in OPS if op["on_gpu"] for target in op["targets"]} | GPU_PART_TARGETS
    assert set(_core.cpu_handlers()) == on_cpu | MARK_TARGETS
    in_loops = {op["targets"][0] for op in OPS if op["on_gpu"]} | GPU_PART_TARGETS
    assert set(_core.cuda_handlers()) == on_gpu | {MEET_TARGET} | {f"{target}_in_loop" for target in in_loops}


def test_each_op_and_each_part_has_one_cpu_handler() -> None:
    assert len(_core.cpu_handlers()) == sum(op["on_cpu"] for op in OPS) + len(PART_TARGETS | MARK_TARGETS)
