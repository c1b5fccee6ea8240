"""Compiles a step of the tutorial's large model for eight GPUs and counts which transfers overlap with matmuls.

    scripts/setup_gpu_aot.sh .venv/bin
    PYTHONPATH=tools python examples/tensor_tutorial/large_step.py --wheels .venv-gpu-RELEASE [--sequential]

This is the model of the tutorial's profiling study: almost 1B parameters on 8 GPUs, 2 of them along the tensor axis.
There a profile shows permutes beside matmuls. Here XLA compiles for GPUs that are described, not present: the schedule
shows which permutes have a matmul beside them, and nothing says how long a step takes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from gpu_compile.environment import compile_environment
from xla_shmem.xla_flags import FLAG

#: As published: hidden size, layers, vocabulary, tokens, batch, and devices along both axes.
SIZES = {"width": 2048, "layers": 16, "vocab": 32000, "sequence": 1024, "hidden": 8192, "head_dim": 128}
BATCH, DATA, TENSOR = 128, 4, 2

#: XLA_FLAGS of the process that compiles. XLA's default scheduler goes by memory and overlaps fewer transfers.
_FLAGS = (f"{FLAG}=true", "--xla_gpu_enable_latency_hiding_scheduler=true")


class LargeStep(NamedTuple):
    """A compiled step.

    Attributes:
      parameters: of the model.
      permutes: instructions that send shards between ranks of the tensor axis; loops run each once for each layer.
      overlapped: those with a matmul between their start and their done.
      bytes: of a device: state, temporaries.
    """

    parameters: int
    permutes: int
    overlapped: int
    bytes: int


def compile_large_step(sequential: bool, num_minibatches: int, layers: int) -> LargeStep:
    """Compiles in this process, whose environment is that of `compile_environment`."""
    import jax

    import train_transformer as tutorial
    from gpu_compile.described_gpus import described_gpus
    from transformer import TutorialConfig
    from xla_shmem import _core
    from xla_shmem.inspect.overlap import find_overlaps

    modules: list[bytes] = []
    devices = described_gpus(DATA * TENSOR, "a100", lambda module, _: modules.append(module))
    mesh = tutorial.make_mesh(DATA, TENSOR, devices)
    config = TutorialConfig(**(SIZES | {"layers": layers}), parallel_block=not sequential)  # type: ignore[arg-type]
    state = tutorial.abstract_state(config, mesh)
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))  # type: ignore[no-untyped-call]
    tokens = jax.ShapeDtypeStruct((BATCH, config.sequence), "int32", sharding=rows)  # type: ignore[no-untyped-call]
    compiled = tutorial.train_step.lower(state, (tokens, tokens), jax.random.key(0), num_minibatches).compile()

    permutes = overlapped = 0
    for (_, name), found in find_overlaps(_core.schedule(modules[-1])).items():
        if "permute" in name:
            permutes += 1
            # Library calls are matmuls of cuBLAS, and their operations are unknown.
            overlapped += found.flops is None or found.flops >= _partial_product(num_minibatches)
    memory: Any = compiled.memory_analysis()
    parameters = sum(x.size for x in jax.tree.leaves(state.params))
    return LargeStep(parameters, permutes, overlapped, memory.argument_size_in_bytes + memory.temp_size_in_bytes)


def _partial_product(num_minibatches: int) -> int:
    """Operations of the smallest matmul that is meant to hide a transfer: a shard with a rank's queries."""
    tokens, shard = BATCH // DATA // num_minibatches * SIZES["sequence"], SIZES["width"] // TENSOR
    return 2 * tokens * shard * shard


@click.command()
@click.option(
    "--wheels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the CUDA plugin's wheels, made by scripts/setup_gpu_aot.sh; without it the environment has them.",
)
@click.option("--sequential", is_flag=True, help="Run attention and MLP one after the other instead of in parallel.")
@click.option(
    "--num-minibatches", type=click.IntRange(1), default=1, show_default=True, help="Parts of a step's batch."
)
@click.option("--layers", type=click.IntRange(1), default=SIZES["layers"], show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(wheels: Path | None, sequential: bool, num_minibatches: int, layers: int, as_json: bool) -> None:
    """Compile the step and print what overlaps."""
    if wheels is not None:  # JAX finds its plugins, and XLA its flags, only at the start of a process
        kept = [each for each in sys.argv[1:] if each != str(wheels) and each not in ("--wheels", f"--wheels={wheels}")]
        os.execve(sys.executable, [sys.executable, __file__, *kept], compile_environment(wheels.resolve(), _FLAGS))
    found = compile_large_step(sequential, num_minibatches, layers)
    if as_json:
        click.echo(json.dumps(found._asdict()))
        return
    click.echo(f"{found.parameters:,} parameters, {found.bytes / (1 << 30):.1f} GiB a GPU")
    click.echo(f"{found.overlapped} of {found.permutes} permutes have a matmul between start and done")


if __name__ == "__main__":
    main()
