"""Floating point operations and bytes that one execution of an instruction takes."""

from __future__ import annotations

from typing import Any

import pytest
from hlo_text import schedule


def work(entry: str, computations: str = "") -> dict[str, dict[str, Any]]:
    """The instructions of main() by name."""
    text = f"HloModule m, is_scheduled=true\n{computations}\nENTRY main {{\n{entry}\n}}\n"
    instructions: dict[str, dict[str, Any]] = schedule(text)["main"]["instructions"]
    return instructions


def test_a_dot_counts_two_operations_for_each_product_whichever_dimension_it_sums_over() -> None:
    main = work("""
  a = f32[8,16]{1,0} parameter(0)
  b = f32[16,4]{1,0} parameter(1)
  at = f32[16,8]{1,0} parameter(2)
  ab = f32[8,4]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  atb = f32[8,4]{1,0} dot(at, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT sum = f32[8,4]{1,0} add(ab, atb)
""")
    assert main["ab"]["flops"] == main["atb"]["flops"] == 2 * 8 * 4 * 16
    assert main["ab"]["bytes"] == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert main["a"]["category"] == "other"


def test_a_convolution_counts_the_kernel_once_for_each_element_of_the_result() -> None:
    main = work("""
  x = f32[2,10,3]{2,1,0} parameter(0)
  k = f32[5,3,7]{2,1,0} parameter(1)
  ROOT conv = f32[2,6,7]{2,1,0} convolution(x, k), window={size=5}, dim_labels=b0f_0io->b0f
""")
    assert main["conv"]["flops"] == 2 * (2 * 6 * 7) * (5 * 3)


GEMM_CONFIG = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"x":[]}}}'


@pytest.mark.parametrize(
    ("target", "config", "flops"),
    [
        ("__cublas$gemm", GEMM_CONFIG, 2 * 8 * 4 * 16),
        ("__cublas$lt$matmul$f8", GEMM_CONFIG, 2 * 8 * 4 * 16),
        ("__cublas$gemm", None, None),
        ("__cudnn$convForward", GEMM_CONFIG, None),
    ],
)
def test_only_matrix_products_of_xla_gpu_that_say_what_they_sum_over_are_counted(
    target: str, config: str | None, flops: int | None
) -> None:
    main = work(f"""
  a = f32[8,16]{{1,0}} parameter(0)
  b = f32[16,4]{{1,0}} parameter(1)
  ROOT call = (f32[8,4]{{1,0}}, s8[1000]{{0}}) custom-call(a, b),
    custom_call_target="{target}"{"" if config is None else f", backend_config={config}"}
""")
    assert main["call"]["flops"] == flops


ATTENTION_CONFIG = """{"cudnn_fmha_backend_config":{"mask_type":"MASK","sliding_window_length":0,
  "intermediate_tensor_shape":{"element_type":"BF16","dimensions":["2","4","8","12"]}}}"""


@pytest.mark.parametrize(
    ("target", "mask", "flops"),
    [
        ("__cudnn$fmhaSoftmax", "NO_MASK", 4 * 16 * 2 * 4 * 8 * 12),
        ("__cudnn$fmhaSoftmax", "CAUSAL", 4 * 16 * 2 * 4 * 8 * 12 // 2),
        ("__cudnn$fmhaSoftmaxDropoutBackward", "NO_MASK", 10 * 16 * 2 * 4 * 8 * 12),
        ("__cudnn$fmhaSoftmax", "PADDING", None),  # the lengths are data
    ],
)
def test_attention_by_cudnn_is_counted_by_its_scores(target: str, mask: str, flops: int | None) -> None:
    main = work(f"""
  q = bf16[2,4,8,16]{{3,2,1,0}} parameter(0)
  k = bf16[2,4,12,16]{{3,2,1,0}} parameter(1)
  ROOT call = (bf16[2,4,8,16]{{3,2,1,0}}, f32[2,4,8]{{2,1,0}}, u8[0]{{0}}) custom-call(q, k, k),
    custom_call_target="{target}", backend_config={ATTENTION_CONFIG.replace("MASK", mask).replace(chr(10), "")}
""")
    assert main["call"]["flops"] == flops
    assert main["call"]["fused_attention"]


FUSIONS = """
reading {
  p = f32[1000,16]{1,0} parameter(0)
  i = s32[] parameter(1)
  same = f32[1000,16]{1,0} bitcast(p)
  s = f32[1,16]{1,0} dynamic-slice(same, i, i), dynamic_slice_sizes={1,16}
  twice = f32[1,16]{1,0} add(s, s)
  ROOT r = f32[1,16]{1,0} exponential(twice)
}
updating {
  p = f32[1000,16]{1,0} parameter(0)
  r = f32[1,16]{1,0} parameter(1)
  i = s32[] parameter(2)
  u = f32[1000,16]{1,0} dynamic-update-slice(p, r, i, i)
  ROOT b = f32[1000,16]{1,0} bitcast(u)
}
"""
ROWS = """
  p = f32[1000,16]{1,0} parameter(0)
  i = s32[] parameter(1)
  reads = f32[1,16]{1,0} fusion(p, i), kind=kLoop, calls=reading
  writes = f32[1000,16]{1,0} fusion(p, reads, i), kind=kLoop, calls=updating
  slice = f32[1,16]{1,0} dynamic-slice(p, i, i), dynamic_slice_sizes={1,16}
  ROOT update = f32[1000,16]{1,0} dynamic-update-slice(writes, slice, i, i)
"""
ROW, INDEX = 16 * 4, 4


def test_a_fusion_counts_the_operations_that_it_holds() -> None:
    main = work(ROWS, FUSIONS)
    assert (main["reads"]["flops"], main["writes"]["flops"]) == (16 + 16, 0)


def test_a_fusion_that_slices_an_operand_reads_the_slice_only() -> None:
    assert work(ROWS, FUSIONS)["reads"]["bytes"] == ROW + INDEX + ROW


def test_a_fusion_that_updates_an_operand_in_place_writes_the_update_only() -> None:
    assert work(ROWS, FUSIONS)["writes"]["bytes"] == ROW + INDEX + ROW


def test_a_slice_and_an_update_count_the_part_that_they_move() -> None:
    main = work(ROWS, FUSIONS)
    assert main["slice"]["bytes"] == main["update"]["bytes"] == ROW + ROW


def test_a_reduction_counts_its_function_once_for_each_element_that_it_removes() -> None:
    main = work(
        """
  a = f32[8,16]{1,0} parameter(0)
  zero = f32[] constant(0)
  ROOT sums = f32[8]{0} reduce(a, zero), dimensions={1}, to_apply=add
""",
        "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }",
    )
    assert main["sums"]["flops"] == 8 * 16 - 8


@pytest.mark.parametrize("target", ["after", "begin", "end"])
def test_calls_that_move_nothing_are_no_work(target: str) -> None:
    main = work(f"""
  a = f32[8]{{0}} parameter(0)
  call = f32[8]{{0}} custom-call(a), custom_call_target="xla_shmem.{target}", custom_call_has_side_effect=true
  ROOT sum = f32[8]{{0}} add(a, a)
""")
    assert (main["call"]["category"], main["call"]["flops"]) == ("other", 0)
    assert main["call"]["bytes"] == main["a"]["bytes"] == 0
