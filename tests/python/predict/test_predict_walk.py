"""The model of `xla-shmem predict` on small schedules, whose times can be computed by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from xla_shmem.errors import PredictError
from xla_shmem.predict.cluster import Cluster
from xla_shmem.predict.constants import Constants
from xla_shmem.predict.program import Choice, Collective, Program, Step, program_of
from xla_shmem.predict.transfers import Transfer, send_channels, transfer
from xla_shmem.predict.walk import Machine, run_times

#: 1 FLOP takes 1 ps, a byte of memory 1 ns, a byte on NVLink 2 ns and on the network 20 ns. Of NVLink's bandwidth puts
#: reach 0.85, kernels 0.75 (the cost model); its latencies are µs.
CLUSTER = Cluster(
    name="paper",
    gpus_per_node=4,
    gpus_per_nvlink_domain=8,
    sms=100,
    bf16_tflops=1.0,
    fp8_tflops=2.0,
    memory_gb_per_s=1.0,
    nvlink_gb_per_s=0.5,
    nvlink_latency_us=1e-9,
    nic_gb_per_s=0.05,
    nic_latency_us=1e-9,
)
CONSTANTS = Constants(
    matmul_efficiency=1.0,
    attention_efficiency=0.5,
    memory_efficiency=1.0,
    nic_efficiency=1.0,
    nccl_us=0.0,
    nccl_channels=20,
    channel_gb_per_s=1.0,
)
MACHINE = Machine(CLUSTER, CONSTANTS)
SECOND = 10**12  # FLOP


def _permute(seconds: float) -> Collective:
    """A put of that time: 9.9 µs, the bytes, and the copy of a slot of 4 MiB."""
    size = round((seconds - 9.9e-6 - (4 << 20) / 1e9) * 0.85 * 0.5e9)
    return Collective("collective-permute", size, group=2, lowered="NVSHMEM", domain_size=2)


PERMUTE = _permute(1)
#: A second on NCCL: 13.3 µs, and half of the bytes.
GATHER = Collective("all-gather", round((1 - 13.3e-6) * 2 * 0.75 * 0.5e9), group=2, lowered="DEFAULT", domain_size=2)


def _program(
    *entry: Step, collectives: Mapping[str, Collective] = {}, devices: int = 2, **others: tuple[int, tuple[Step, ...]]
) -> Program:
    return Program(
        entry="entry",
        computations={"entry": entry, **{name: steps for name, (_, steps) in others.items()}},
        executions={"entry": 1, **{name: runs for name, (runs, _) in others.items()}},
        collectives=collectives,
        devices=devices,
    )


def _compute(seconds: float) -> Step:
    return Step("dot", flops=int(seconds * SECOND))


def _pair(name: str, *between: Step) -> tuple[Step, ...]:
    return (Step(f"{name}-start", starts=name), *between, Step(f"{name}-done", ends=name))


def test_a_put_that_overlaps_with_enough_compute_costs_nothing() -> None:
    times = run_times(_program(*_pair("p", _compute(3)), collectives={"p": PERMUTE}), "NVSHMEM", MACHINE)
    assert times.step == pytest.approx(3)
    assert times.exposed == times.slowed == 0
    assert times.transfers == pytest.approx(1)


def test_the_part_of_a_transfer_without_compute_is_exposed() -> None:
    times = run_times(_program(*_pair("p", _compute(0.25)), collectives={"p": PERMUTE}), "NVSHMEM", MACHINE)
    assert times.exposed == pytest.approx(0.75)
    assert times.step == pytest.approx(1)


def test_a_collective_without_start_is_exposed_in_full() -> None:
    program = _program(_compute(2), Step("p", starts="p", ends="p"), collectives={"p": PERMUTE})
    assert run_times(program, "NVSHMEM", MACHINE).exposed == pytest.approx(1)


def test_compute_that_overlaps_with_nccl_has_the_remaining_sms() -> None:
    times = run_times(_program(*_pair("g", _compute(3)), collectives={"g": GATHER}), "DEFAULT", MACHINE)
    # For one second 20 of 100 SMs are occupied, so 0.8 of the work is done; 2.2 seconds remain.
    assert times.step == pytest.approx(3.2)
    assert times.slowed == pytest.approx(0.2)
    assert times.exposed == 0


def test_transfers_of_one_backend_run_one_after_the_other() -> None:
    program = _program(
        Step("a", starts="a"), Step("b", starts="b"), Step("b", ends="b"), Step("a", ends="a"),
        collectives={"a": PERMUTE, "b": PERMUTE},
    )  # fmt: skip
    assert run_times(program, "NVSHMEM", MACHINE).step == pytest.approx(2)


def test_two_backends_share_the_link() -> None:
    collectives = {"g": GATHER, "p": _permute(0.5)}  # 1 s alone
    program = _program(
        Step("g", starts="g"), Step("p", starts="p"), Step("p", ends="p"), Step("g", ends="g"), collectives=collectives
    )
    # They need 0.75 + 0.85 of the link, so both are slower by 1.6 for 0.8 s; then the rest of the gather takes 0.5 s.
    assert run_times(program, "NVSHMEM", MACHINE).step == pytest.approx(1.3)


def test_a_loop_takes_its_trip_count_times_its_body() -> None:
    loop = Step("while", calls=("body",), loop=True)
    body = (7, _pair("p", _compute(0.25)))
    program = _program(loop, body=body, collectives={"p": PERMUTE})
    times = run_times(program, "NVSHMEM", MACHINE)
    assert times.step == pytest.approx(7)
    assert times.exposed == pytest.approx(7 * 0.75)


def test_trip_counts_of_nested_loops_multiply() -> None:
    outer, inner = Step("while", calls=("outer",), loop=True), Step("while", calls=("inner",), loop=True)
    program = _program(outer, outer=(3, (inner, _compute(1))), inner=(12, _pair("p")), collectives={"p": PERMUTE})
    assert run_times(program, "NVSHMEM", MACHINE).step == pytest.approx(3 * (4 + 1))


def test_a_transfer_started_before_a_loop_overlaps_with_its_first_iterations() -> None:
    loop = Step("while", calls=("body",), loop=True)
    program = _program(
        *_pair("g", loop),
        body=(10, (_compute(0.4), Step("p", starts="p", ends="p"))),
        collectives={"g": GATHER, "p": _permute(0.1)},
    )
    times = run_times(program, "NVSHMEM", MACHINE)
    # The gather overlaps with the first iterations: 20 SMs fewer, and the link shared with the permute of 0.1 s.
    # 0.5 s of kernel (0.4 of work); 0.1 s of both at 1 / 1.6 of their speed; 0.4 s of kernel during the gather's last
    # 0.4 s, and its rest.
    first = 0.5 + 0.16 + (0.4 + 0.08) + 0.1
    assert times.step == pytest.approx(first + 8 * 0.5)


def test_a_loop_without_collectives_is_one_fused_kernel_or_as_compiled() -> None:
    loop = Step("while", calls=("body",), loop=True)
    program = _program(loop, body=(4, (Step("dot", flops=SECOND, bytes=3 * 10**9),)))
    assert run_times(program, "NVSHMEM", MACHINE).step == pytest.approx(4 / CONSTANTS.attention_efficiency)
    compiled = dataclasses.replace(MACHINE, fused_attention=False)
    assert run_times(program, "NVSHMEM", compiled).step == pytest.approx(4 * 3)


def test_an_attention_kernel_has_its_own_efficiency() -> None:
    program = _program(Step("attention", flops=SECOND, attention=True), _compute(1))
    assert run_times(program, "NVSHMEM", MACHINE).step == pytest.approx(1 / CONSTANTS.attention_efficiency + 1)


def test_a_conditional_takes_as_long_as_its_longest_branch() -> None:
    program = _program(Step("if", calls=("short", "long")), short=(1, (_compute(1),)), long=(1, (_compute(2),)))
    assert run_times(program, "NVSHMEM", MACHINE).step == pytest.approx(2)


def test_fp8_halves_only_the_arithmetic() -> None:
    program = _program(_compute(2), Step("copy", bytes=10**9))
    assert run_times(program, "NVSHMEM", dataclasses.replace(MACHINE, fp8=True)).step == pytest.approx(1 + 1)


def test_the_error_names_a_loop_of_unknown_length() -> None:
    program = _program(Step("while", calls=("body",), loop=True), body=(1, (_compute(1),)))
    unknown = dataclasses.replace(program, executions={"entry": 1, "body": None})
    with pytest.raises(PredictError, match="no trip count for the loop over body"):
        run_times(unknown, "NVSHMEM", MACHINE)


def test_a_program_that_does_not_fit_is_refused() -> None:
    machine = dataclasses.replace(MACHINE, cluster=dataclasses.replace(CLUSTER, nodes=2))
    with pytest.raises(PredictError, match="for 9 devices, and cluster paper has 2 nodes of 4 GPUs"):
        run_times(_program(devices=9), "NVSHMEM", machine)


@pytest.mark.parametrize(
    ("op", "group", "carried"),
    [
        ("all-gather", 4, 0.75),
        ("ragged-all-to-all", 4, 0.75),
        ("all-to-all", 4, 0.75),
        ("reduce-scatter", 4, 3),
        ("all-reduce", 4, 1.5),
        ("collective-permute", 4, 1),
    ],
)
def test_a_device_of_a_ring_sends_its_share_of_the_bytes(op: str, group: int, carried: float) -> None:
    far = Collective(op, 10**9, group, "DEFAULT", domain_size=1)
    assert transfer(far, "DEFAULT", CLUSTER, CONSTANTS, 4).seconds == pytest.approx(20 * carried)


def test_every_step_of_a_ring_adds_latency() -> None:
    slow = dataclasses.replace(CLUSTER, nic_latency_us=2.0)
    constants = dataclasses.replace(CONSTANTS, nccl_us=5.0)
    small = Collective("all-reduce", 4, 4, "DEFAULT", domain_size=1)
    assert transfer(small, "DEFAULT", slow, constants, 4).seconds == pytest.approx(17e-6, rel=0.01)


def _across(op: str, group: int, domain_size: int, by: Choice = "DEFAULT") -> Transfer:
    return transfer(Collective(op, 10**9, group, by, domain_size), by, CLUSTER, CONSTANTS, group)


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter", "collective-broadcast"])
def test_a_ring_across_domains_uses_the_nics_of_all_gpus_of_its_group(op: str) -> None:
    assert _across(op, 16, 4).seconds == pytest.approx(_across(op, 16, 1).seconds / 4)
    assert _across(op, 128, 64).seconds == pytest.approx(_across(op, 128, 1).seconds / 7.5), "NVLink is the limit"
    assert (_across(op, 16, 1).link, _across(op, 16, 4).link) == (0, pytest.approx(0.4))


def test_an_all_to_all_across_domains_has_one_nic_a_gpu_for_what_leaves() -> None:
    assert _across("all-to-all", 4, 1).seconds == pytest.approx(15)
    assert _across("all-to-all", 4, 2).seconds == pytest.approx(10), "two of the three pieces leave"


@pytest.mark.parametrize(
    ("op", "between", "within"),
    [
        ("all-reduce", 5, 2 + 2),
        ("all-gather", 2.5, 2),
        ("reduce-scatter", 20, 16),
        ("all-to-all", 10, 2),
        ("collective-broadcast", 20, 8),
    ],
)
def test_a_divided_collective_takes_its_parts_one_after_the_other(op: str, between: float, within: float) -> None:
    found = _across(op, 8, 4, "HIERARCHICAL")
    assert found.seconds == pytest.approx(between + within, rel=1e-4)
    assert found.link == pytest.approx(0.75 * within / (between + within), rel=1e-4)


@pytest.mark.parametrize(("devices", "channels"), [(1, 32), (4, 8), (8, 4), (16, 2), (32, 1), (64, 1)])
def test_nccl_gives_a_peer_fewer_channels_in_a_large_communicator(devices: int, channels: int) -> None:
    rack = dataclasses.replace(CLUSTER, gpus_per_nvlink_domain=72)
    assert send_channels(devices, rack) == channels


@pytest.mark.parametrize(("devices", "channels"), [(32, 1), (128, 1), (16, 2)])
def test_a_communicator_of_several_domains_has_the_channels_of_the_network(devices: int, channels: int) -> None:
    cluster = dataclasses.replace(CLUSTER, nic_gb_per_s=50)
    assert send_channels(devices, cluster) == channels


def test_a_send_is_as_fast_as_its_channels() -> None:
    constants = dataclasses.replace(CONSTANTS, channel_gb_per_s=0.01)
    cost = transfer(PERMUTE, "DEFAULT", CLUSTER, constants, 2)
    assert cost.sms == 16
    assert cost.seconds == pytest.approx(10.5e-6 + PERMUTE.bytes / 0.16e9)
    assert cost.link == pytest.approx(0.16 / 0.5)


def test_sends_are_faster_in_small_communicators() -> None:
    constants = dataclasses.replace(CONSTANTS, channel_gb_per_s=0.01)
    small = dataclasses.replace(PERMUTE, bytes=10**7)
    program = _program(*_pair("p"), collectives={"p": small}, devices=8)
    machine = dataclasses.replace(MACHINE, constants=constants)
    assert run_times(program, "DEFAULT", machine).step == pytest.approx(10**7 / (4 * 0.01e9), rel=1e-3)
    apart = dataclasses.replace(machine, connected_components=True)
    assert run_times(program, "DEFAULT", apart).step == pytest.approx(10**7 / (16 * 0.01e9), rel=1e-3)


def _instruction(name: str, category: str, **fields: Any) -> dict[str, Any]:
    plain = {"opcode": "fusion", "called": [], "flops": 0, "bytes": 0, "fused_attention": False}
    return {"name": name, "category": category, **plain, "start": None, "collective": False, **fields}


def test_a_schedule_becomes_steps() -> None:
    entry = [
        _instruction("x", "other", opcode="parameter"),
        _instruction("cp-start", "collective", collective=True),
        _instruction("dot", "compute", flops=5, bytes=6),
        _instruction("library", "compute", flops=None, bytes=7),
        _instruction("attention", "compute", flops=8, bytes=9, fused_attention=True),
        _instruction("cp-done", "collective", collective=True, start="cp-start"),
        _instruction("ar", "collective", collective=True),
        _instruction("while", "control", opcode="while", called=["body", "condition"]),
    ]
    schedules: list[Any] = [
        {"name": "body", "executions": 3, "in_loop": True, "instructions": []},
        {"name": "entry", "executions": 1, "in_loop": False, "instructions": entry},
    ]
    program = program_of(schedules, {"cp-start": PERMUTE, "ar": GATHER}, 2)
    assert program.entry == "entry"
    assert program.unknown == 1
    assert program.computations["entry"] == (
        Step("cp-start", starts="cp-start"),
        Step("dot", flops=5, bytes=6),
        Step("library", bytes=7),
        Step("attention", flops=8, bytes=9, attention=True),
        Step("cp-done", ends="cp-start"),
        Step("ar", starts="ar", ends="ar"),
        Step("while", calls=("body",), loop=True),
    )
    with pytest.raises(PredictError, match="collective ar in entry is not among"):
        program_of(schedules, {"cp-start": PERMUTE}, 2)
