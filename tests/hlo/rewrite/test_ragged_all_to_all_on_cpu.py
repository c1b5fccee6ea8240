"""Ragged all-to-alls in the form that XLA:CPU gives them: one instruction, offsets and sizes of any integer type."""

from __future__ import annotations

import pytest
from test_listed_ops import HALVES, PE_HALVES, PassRun, run_listed

INPUT, OUTPUT = "f32[6,5]{1,0}", "f32[9,5]{1,0}"


def ragged(first: str = INPUT, second: str = OUTPUT, counts: str = "s32[4]{0}", result: str = OUTPUT) -> PassRun:
    return run_listed(f"""
HloModule jit_f, is_scheduled=true, num_partitions=4
ENTRY main {{
  p0 = {first} parameter(0)
  p1 = {second} parameter(1)
  p2 = {counts} parameter(2)
  copy = {second} copy(p1)
  ROOT op = {result} ragged-all-to-all(p0, copy, p2, p2, p2, p2), channel_id=1, replica_groups={HALVES}
}}
""")


@pytest.mark.parametrize("counts", [f"{sign}{bits}[4]{{0}}" for sign in "su" for bits in (8, 16, 32, 64)])
def test_it_becomes_a_call_whose_result_stays_in_the_second_operand(counts: str) -> None:
    run = ragged(counts=counts)
    assert run.veto() is None
    assert run.after.instruction("op") == (
        f'{OUTPUT} custom-call(p0, copy, p2, p2, p2, /*index=5*/p2), custom_call_target="xla_shmem.ragged_all_to_all", '
        "custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (1, {})}, "
        "api_version=API_VERSION_TYPED_FFI"
    )
    arguments = run.after.arguments("op")
    assert {key: arguments[key] for key in PE_HALVES} == PE_HALVES
    assert "reduction" not in arguments


@pytest.mark.parametrize(
    ("operands", "veto"),
    [
        ({"counts": "f32[4]{0}"}, "operand 2 is not a row of integers, equally many for each of 2 devices"),
        ({"counts": "s32[3]{0}"}, "operand 2 is not a row of integers, equally many for each of 2 devices"),
        (
            {"first": "f32[6,5]{0,1}", "second": "f32[9,5]{0,1}", "result": "f32[9,5]{0,1}"},
            "its input and result differ in more than the number of rows, or a row is not contiguous",
        ),
    ],
)
def test_another_form_stays_and_the_veto_says_why(operands: dict[str, str], veto: str) -> None:
    run = ragged(**operands)
    assert run.veto() == veto
    assert run.after.instruction("op") == run.before.instruction("op")
