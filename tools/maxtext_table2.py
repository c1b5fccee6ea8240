"""Compiles MaxText's own training step of Llama 3 8B for the rows of Table 2 in NVIDIA's post.

    .venv-maxtext-highest/bin/python tools/maxtext_table2.py --wheels FOLDER docs/data/maxtext-table2.json

scripts/setup_clients.sh makes the environment, scripts/setup_gpu_aot.sh the folder of wheels. No GPU and no driver are
needed. MaxText's `train_compile` reads the configuration, builds model, optimizer, mesh and step, and compiles. Two
things are replaced. Its GPUs are described ones: MaxText itself would compile for those of this machine. And where it
calls TransformerEngine, which asks cuDNN for sizes while JAX traces it, stands the ring attention of xla-shmem.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from fit_predict import CLUSTER, forecasts
from gpu_compile.compiled_step import CompiledStep, CompileError, compiled_step
from gpu_compile.environment import compile_environment
from published import TABLE2, Row
from wheels_option import wheels_option
from xla_shmem.hlo.files import read_module
from xla_shmem.options import resolve
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.forecast import BACKENDS
from xla_shmem.predict.module_program import program_of_module
from xla_shmem.predict.program import Program
from xla_shmem.xla_flags import FLAG

TARGET = "gb200"

_BACKENDS = ("NVSHMEM", "DEFAULT")

_KEYS = (
    "hardware=gpu",
    "model_name=llama3-8b",
    "attention=cudnn_flash_te",
    "context_parallel_strategy=ring",
    "remat_policy=full",
    "dtype=bfloat16",
    "dataset_type=synthetic",
    "packing=false",
    "enable_checkpointing=false",
    "enable_goodput_recording=false",
    "run_name=table2",
    "compile_topology=a3",  # its value does not count, but MaxText wants one
    "compile_topology_num_slices=1",
    "internal_compile=true",
)


def keys(row: Row) -> list[str]:
    """MaxText's keys for a row: one sequence a step."""
    return [
        *_KEYS,
        f"ici_context_parallelism={row.context}",
        f"ici_tensor_parallelism={row.tensor}",
        "ici_fsdp_parallelism=1",
        f"per_device_batch_size={1 / row.devices}",
        f"max_target_length={row.sequence}",
        f"internal_compile_num_devices={row.devices}",
    ]


def _ring_attention(
    op: Any, query: Any, key: Any, value: Any, segment_ids: Any, positions: Any, model_mode: str, sinks: Any = None
) -> Any:
    """Stands for `AttentionOp.cudnn_flash_attention`: [batch, length, heads, head_dim], the length in zig-zag order."""
    import jax
    from jax.sharding import PartitionSpec as P

    from long_context.parallel.cudnn_attention import CUDNN_BLOCKS
    from long_context.parallel.ring_attention import ring_attention

    axis = op.config.context_sharding
    heads = P(None, axis, "tensor")  # type: ignore[no-untyped-call]

    @jax.shard_map(mesh=op.mesh, in_specs=(heads, heads, heads), out_specs=heads)
    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return ring_attention(q, k, v, axis, blocks=CUDNN_BLOCKS)

    return attend(query * query.shape[-1] ** 0.5, key, value)  # MaxText's queries are scaled already


def compile_here(row_keys: Sequence[str], count: int, module: Path) -> CompiledStep:
    """Compiles the step in this process, which must have the environment of `compile_environment`.

    Args:
      row_keys: MaxText's keys.
      count: number of GPUs.
      module: file for the scheduled module that the pass received. Beside it the serialised executable is written,
        train_step.executable.
    """
    from maxtext.layers.attention_op import AttentionOp
    from maxtext.trainers.pre_train import train_compile

    from gpu_compile.described_gpus import described_gpus

    records: list[dict[str, Any]] = []

    def observe(scheduled: bytes, found: list[dict[str, Any]]) -> None:
        module.write_bytes(scheduled)
        records.extend(found)

    devices = described_gpus(count, TARGET, observe)
    train_compile.get_topology_desc = lambda **_: SimpleNamespace(devices=devices)
    AttentionOp.cudnn_flash_attention = _ring_attention
    compiled: list[Any] = []
    seconds: list[float] = []
    compile_step = train_compile.jit_and_compile

    def kept(*arguments: Any) -> Any:
        start = time.perf_counter()
        compiled.append(compile_step(*arguments))
        seconds.append(time.perf_counter() - start)
        return compiled[0]

    train_compile.jit_and_compile = kept
    package = importlib.util.find_spec("maxtext")
    assert package is not None
    assert package.submodule_search_locations, package
    base = f"{package.submodule_search_locations[0]}/configs/base.yml"
    with tempfile.TemporaryDirectory() as folder:
        train_compile.main([train_compile.__name__, base, *row_keys, f"base_output_directory={folder}"])
    (module.parent / "train_step.executable").write_bytes(compiled[0].runtime_executable().serialize())
    return compiled_step(compiled[0], records, seconds[0])


def compile_row(
    row_keys: Sequence[str], count: int, wheels: Path, module: Path, flags: Sequence[str] = (f"{FLAG}=true",)
) -> CompiledStep:
    """As `compile_here`, in a process of its own.

    Args:
      row_keys, count, module: as there.
      wheels: folder of the CUDA plugin's wheels.
      flags: of XLA; by default the plugin is on.

    Raises:
      CompileError: the compilation failed; the message has the end of the process's output.
    """
    report = module.with_suffix(".json")
    command = [sys.executable, __file__, "--compile", str(count), str(module), str(report), *row_keys]
    environment = compile_environment(wheels.resolve(), flags)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not report.exists():
        raise CompileError(f"the compilation ended with exit code {done.returncode}:\n{done.stderr[-3000:]}")
    return CompiledStep(**json.loads(report.read_text()))


def report(compiled: Mapping[Row, tuple[CompiledStep, Program]]) -> dict[str, Any]:
    """Memory, decisions and predictions of all rows; bytes in GB of 10^9, gains in percent."""
    rows = []
    found = forecasts({row: program for row, (_, program) in compiled.items()}, read_constants())
    for row, (step, _) in compiled.items():
        of_backend = {b: [r["op"] for r in step.records if r["lowered"] == b] for b in _BACKENDS}
        permutes = of_backend["NVSHMEM"].count("collective-permute")
        rows.append(
            {
                "row": str(row),
                "gpus": row.devices,
                "peak_gb": round(step.peak_bytes / 1e9, 1),
                "permutes_on_nvshmem": permutes,
                "others_on_nvshmem": len(of_backend["NVSHMEM"]) - permutes,
                "on_default": len(of_backend["DEFAULT"]),
                **{f"gb_a_step_on_{b.lower()}": round(step.bytes_per_step(b) / 1e9, 1) for b in _BACKENDS},
                **{f"predicted_tflops_on_{b.lower()}": round(found[row].tflops(b)) for b in BACKENDS},
                "predicted_gain_percent": round(found[row].gain * 100, 1),
                "measured_gain_percent": round(TABLE2[row].gain * 100, 1),
            }
        )
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("maxtext", "jax"))
    return {"date": str(datetime.date.today()), "versions": versions, "rows": rows}


@click.command()
@wheels_option
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
def main(wheels: Path, path: Path) -> None:
    """Compile every row and write the file."""
    compiled = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in TABLE2:
            module = Path(folder, f"{row.file_name}.pb")
            try:
                step = compile_row(keys(row), row.devices, wheels, module)
            except CompileError as error:
                raise click.ClickException(f"{row}: {error}") from None
            compiled[row] = step, program_of_module(read_module(str(module)), read_cluster(CLUSTER), resolve())
            click.echo(f"{row}: {step.seconds:.0f} s, peak {step.peak_bytes / 1e9:.1f} GB per device")
    path.write_text(json.dumps(report(compiled), indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        _, _, number, module, step_path, *row_keys = sys.argv
        Path(step_path).write_text(json.dumps(dataclasses.asdict(compile_here(row_keys, int(number), Path(module)))))
    else:
        main()
