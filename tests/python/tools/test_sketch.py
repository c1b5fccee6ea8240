"""Sketches of training steps: the bytes that they send, counted by hand."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from long_context.models.llama_config import parameter_count
from long_context.train.config import TrainConfig
from long_context_job import long_context_job
from sketch import Exchanges, sketch
from xla_shmem.errors import PredictError
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.program import Program
from xla_shmem.predict.walk import Machine, run_times

RACK = read_cluster("gb200-nvl72")
_LENGTH = 64 << 10


def _job(context: int = 4, tensor: int = 1, **fields: int) -> TrainConfig:
    return dataclasses.replace(long_context_job(_LENGTH, context, tensor), **fields)


def _sent(program: Program) -> Counter[str]:
    """Result bytes of one run, by op."""
    sent: Counter[str] = Counter()
    for name, steps in program.computations.items():
        for step in steps:
            if step.starts is not None:
                collective = program.collectives[step.starts]
                sent[collective.op] += (program.executions[name] or 0) * collective.bytes
    return sent


@pytest.mark.parametrize("context", [2, 4, 16])
def test_a_ring_sends_its_blocks_three_times_and_their_gradients_once(context: int) -> None:
    model = _job(context).model()
    block = 2 * _LENGTH // context * model.kv_width  # keys and values
    hops = context - 1
    expected = model.layers * hops * block * (3 * 2 + 4)
    assert _sent(sketch(_job(context), RACK))["collective-permute"] == expected


def test_gradients_beside_attention_travel_with_their_block_to_its_owner() -> None:
    exchanges = Exchanges(forward=(1, 1), again=None, backward=(1, 1), gradients_beside_attention=True)
    job = _job(context=8)
    program = sketch(job, RACK, exchanges)
    block = 2 * _LENGTH // 8 * job.model().kv_width * 2
    assert _sent(program)["collective-permute"] == job.model().layers * block * (7 + 2 * 8)
    for steps in program.computations.values():
        alone = {step.starts for step in steps if step.starts and step.starts == step.ends}
        assert not any("block" in name for name in alone), "every transfer of a block is beside attention"


def test_slices_travel_as_often_as_asked() -> None:
    exchanges = Exchanges(forward=(4, 3), again=None, backward=(8, 6), gradients_beside_attention=True)
    job = _job(context=4, tensor=2)
    program = sketch(job, RACK, exchanges)
    slices = [each for each in program.collectives.values() if each.group == 2 and each.op == "collective-permute"]
    assert len(slices) == 21
    assert {each.bytes for each in slices} == {_LENGTH // 4 // 2 * job.model().width * 2}


def test_one_device_sends_nothing() -> None:
    program = sketch(_job(context=1), RACK)
    assert not program.collectives
    machine = Machine(RACK, read_constants())
    assert run_times(program, "NVSHMEM", machine) == run_times(program, "DEFAULT", machine)


def test_a_device_gathers_all_weights_twice_and_scatters_their_gradients() -> None:
    job = _job(context=8)
    sent = _sent(sketch(job, RACK))
    weights = parameter_count(job.model()) * 2
    table = job.model().vocab * job.model().width * 2 * 2
    assert sent["all-gather"] == pytest.approx(2 * weights - table, rel=0.01), "the embedding and the head once"
    assert sent["reduce-scatter"] == pytest.approx(weights / 8, rel=0.01)
    assert sent["all-reduce"] == 0


def test_replicas_sum_their_gradients() -> None:
    sent = _sent(sketch(_job(context=8, data=4, batch=4), RACK))
    assert sent["all-reduce"] == sent["reduce-scatter"]


@pytest.mark.parametrize(("domain", "rings", "slices"), [(4, False, True), (8, True, True), (1, False, False)])
def test_the_order_of_the_mesh_decides_what_groups_are_in_an_nvlink_domain(
    domain: int, rings: bool, slices: bool
) -> None:
    cluster = dataclasses.replace(RACK, gpus_per_nvlink_domain=domain)
    program = sketch(_job(context=4, tensor=2, data=2, batch=2), cluster)
    permutes = {name: each for name, each in program.collectives.items() if each.op == "collective-permute"}
    assert {each.in_domain for name, each in permutes.items() if "block" in name} == {rings}
    assert {each.in_domain for name, each in permutes.items() if "slice" in name} == {slices}
    assert all((each.lowered == "NVSHMEM") == each.in_domain for each in permutes.values())
    assert not program.collectives["gradients of replicas"].in_domain


def test_tensor_parallelism_divides_the_arithmetic_without_a_remainder() -> None:
    whole, halves = sketch(_job(tensor=1), RACK), sketch(_job(tensor=2), RACK)
    assert halves.flops(halves.entry) * 2 == pytest.approx(whole.flops(whole.entry), rel=0.01)


@pytest.mark.parametrize(("field", "value"), [("remat", "none"), ("attention", "gather"), ("dtype", "f32")])
def test_jobs_unlike_the_compiled_ones_are_refused(field: str, value: str) -> None:
    with pytest.raises(PredictError, match=f"{field} is {value}"):
        sketch(dataclasses.replace(_job(), **{field: value}), RACK)
