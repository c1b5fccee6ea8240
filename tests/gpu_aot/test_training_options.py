"""Options of a training job that only a GPU's program shows: cuDNN's attention, and activations in host memory."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from compiler_runs import WHEELS, Compiler

import long_sequence_memory
from gpu_compile.compiled_step import CompiledStep, compile_step
from long_context.train.config import TrainConfig
from xla_shmem import _core
from xla_shmem.hlo.files import to_text

_RING, _SEQUENCE = 4, 4096


def job(**options: str) -> TrainConfig:
    sizes = {"preset": "demo", "width": 512, "layers": 3}
    return TrainConfig(**sizes, context=_RING, sequence=_SEQUENCE, dtype="bf16", **options)


def compiled(config: TrainConfig, folder: Path) -> tuple[CompiledStep, Counter[str]]:
    """The step, and how often its module calls each target."""
    module = folder / "step.pb"
    step = compile_step(config, "h100", WHEELS, module=module)
    return step, Counter(re.findall(rb"__cudnn\$fmha\w+", module.read_bytes()))


def test_the_ring_computes_its_blocks_with_cudnn_forward_and_backward(compiler: Compiler, tmp_path: Path) -> None:
    by_xla, none = compiled(job(), tmp_path)
    by_cudnn, calls = compiled(job(attention_blocks="cudnn"), tmp_path)
    assert not none
    # A rank's own block is two calls, one of them causal; then one for each block that arrives.
    blocks = 2 + (_RING - 1)
    assert calls == {b"__cudnn$fmhaSoftmax": blocks, b"__cudnn$fmhaSoftmaxBackward": blocks}
    permutes = [
        sorted(r["bytes"] for r in step.records if r["op"] == "collective-permute") for step in (by_xla, by_cudnn)
    ]
    assert permutes[0] == permutes[1], "the ring sends the same"

    timeline = _core.schedule((tmp_path / "step.pb").read_bytes())
    kernels = [each for computation in timeline for each in computation["instructions"] if each["fused_attention"]]
    half = _SEQUENCE // _RING // 2
    # The own block is two causal squares of halves and a whole one. Each other block is two whole ones.
    scores = half * half * (1 + 1 + 2 * (_RING - 1))
    assert sum(each["flops"] or 0 for each in kernels) == (4 + 10) * 512 * scores


def test_offloaded_inputs_of_layers_are_in_host_memory(compiler: Compiler, tmp_path: Path) -> None:
    full, offload = (compiled(job(remat=remat), tmp_path)[0] for remat in ("full", "offload"))
    inputs = 3 * (_SEQUENCE // _RING) * 512 * 2  # layers x tokens x width, bf16
    assert full.host_bytes == 0
    assert offload.host_bytes == inputs
    assert offload.temporary_bytes <= full.temporary_bytes


def matmuls(kind: str, folder: Path) -> Counter[tuple[str, ...]]:
    """The operand types of each matmul of a tensor-parallel FP8 step: XLA makes it a Triton fusion."""
    module = folder / "step.pb"
    sizes = {"preset": "demo", "width": 512, "layers": 3, "context": 2, "tensor": 2}
    compile_step(TrainConfig(**sizes, tensor_matmul=kind, dtype="bf16", fp8=True), "h100", WHEELS, module=module)
    signatures = re.findall(r"gemm_fusion\S* \((.*)\) ->", to_text("step", module.read_bytes()))
    return Counter(tuple(sorted(set(re.findall(r": (f8\w+|bf16|f32)\[", each)))) for each in signatures)


@pytest.mark.timeout(600)
def test_the_matmuls_of_a_tensor_parallel_step_read_fp8(compiler: Compiler, tmp_path: Path) -> None:
    sync, overlapped = (matmuls(kind, tmp_path) for kind in ("sync", "async"))
    assert sync["f8e4m3fn",] == 7, "query, key, value, output, gate, up, down"
    assert sync["f8e4m3fn", "f8e5m2"] == 2 * 7, "gradients of inputs and of weights"
    # XLA makes one of some small products that share an operand, so these have no fixed number.
    assert overlapped["f8e4m3fn",]
    assert overlapped["f8e4m3fn", "f8e5m2"]
    assert sync.keys() == overlapped.keys()
    assert sync["bf16",] == overlapped["bf16",], "those of attention and the output layer"


@pytest.mark.parametrize("name", ["no CP", "CP 8"])
def test_a_row_of_the_memory_table_says_whether_the_job_fits(name: str) -> None:
    step = CompiledStep(1 << 30, 40 << 30, 0, 0, 0, [], 1.0)
    assert long_sequence_memory.row(name, step).endswith("| 1.00 | 40.00 | 41.00 | 0.00 | no |")
    assert long_sequence_memory.JOBS[name].mesh().shards == 8
