"""The compilation behind docs/data/table2.json, with a small model."""

from __future__ import annotations

import dataclasses

import pytest
from compiler_runs import WHEELS, Compiler

import table2
from gpu_compile.compiled_step import CompiledStep, CompileError, compile_step
from long_context.train.config import TrainConfig
from published import Row

_RING = 4
_SEQUENCE = 2048
_ROW = Row(_SEQUENCE, _RING, 1)


@pytest.fixture(scope="module")
def config() -> TrainConfig:
    return dataclasses.replace(_ROW.job(), preset="demo", layers=3, remat="full")


@pytest.fixture(scope="module")
def step(config: TrainConfig, compiler: Compiler) -> CompiledStep:
    return compile_step(config, table2.TARGET, WHEELS)


def test_the_rings_permutes_are_on_nvshmem_with_their_trip_counts(config: TrainConfig, step: CompiledStep) -> None:
    model = config.model()
    block = 2 * (_SEQUENCE // _RING) * model.kv_heads * model.head_dim  # keys and values of one device
    permutes = [record for record in step.records if record["op"] == "collective-permute"]
    assert {record["lowered"] for record in permutes} == {"NVSHMEM"}
    assert {record["executions"] for record in permutes} == {model.layers}
    # bf16 blocks forward, once more for the recomputation and in the backward, and f32 gradients in the backward.
    sent = sum(record["bytes"] * record["executions"] for record in permutes)
    hops = _RING - 1
    assert sent == model.layers * hops * block * (2 + 2 + 2 + 4)
    assert step.bytes_per_step("NVSHMEM") >= sent


def test_a_device_has_its_share_of_the_state(config: TrainConfig, step: CompiledStep) -> None:
    from long_context.models.llama_config import parameter_count

    share = parameter_count(config.model()) * 12 / _RING  # f32 parameter and two moments
    assert share <= step.state_bytes <= 1.1 * share + 2 * 4 * _SEQUENCE
    assert step.peak_with_donation_bytes <= step.peak_bytes


def test_the_file_counts_every_collective_with_its_backend_and_rule(step: CompiledStep) -> None:
    report = table2.report([(_ROW, step)])
    assert sum(line["collectives"] for line in report["decisions"]) == len(step.records)
    (row,) = report["rows"]
    assert row["collectives_on_nvshmem"] + row["collectives_on_default"] == len(step.records)
    gathers = {(line["backend"], line["rule"]) for line in report["decisions"] if line["op"] == "all-gather"}
    assert gathers == {("DEFAULT", "unconsidered-op")}, "decided, and said why"


def test_the_error_names_a_loop_without_a_trip_count(step: CompiledStep) -> None:
    unknown = [{**step.records[0], "executions": None}]
    with pytest.raises(ValueError, match="no trip count"):
        dataclasses.replace(step, records=unknown).bytes_per_step("NVSHMEM")


def test_a_failed_compilation_shows_the_output_of_the_compiler(config: TrainConfig, compiler: Compiler) -> None:
    with pytest.raises(CompileError, match="no-such-gpu"):
        compile_step(config, "no-such-gpu", WHEELS)
