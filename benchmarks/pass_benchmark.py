"""Measures the compiler pass on one thread, from serialised module to serialised module.

    python benchmarks/pass_benchmark.py [--instructions 100000] [--collectives 5000] [--runs 15]

Prints medians in ms of `run_pass` (CPU lowering, and on its own output), of `inspect_module` and, for scale, of XLA
loading the same bytes into its own classes. compile_benchmark.py measures what the pass adds to whole compilations.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from jaxlib import _hlo  # type: ignore[attr-defined]

from xla_shmem import _core

DEVICES = 8


def module_text(instructions: int, collectives: int) -> str:
    """A scheduled module: chains of arithmetic, collectives at equal distances, metadata on every line."""
    ring = ",".join(f"{{{i},{(i + 1) % DEVICES}}}" for i in range(DEVICES))
    all_devices = ",".join(str(i) for i in range(DEVICES))
    lines = [
        "HloModule jit_train_step, is_scheduled=true, num_partitions=8",
        "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }",
        "ENTRY main {",
        "  v0 = f32[256,512]{1,0} parameter(0)",
    ]
    every = max(1, instructions // max(1, collectives))
    for i in range(1, instructions):
        scope = f"jit(train_step)/transpose/layer_{i % 48}/attention/ring_step/op_{i}"
        metadata = f'metadata={{op_name="{scope}" stack_frame_id={i % 97}}}'
        shape = "f32[256,512]{1,0}"
        if i % every == 0 and (i // every) % 2 == 0:
            groups = f"replica_groups={{{{{all_devices}}}}}, use_global_device_ids=true"
            op = f"all-reduce(v{i - 1}), channel_id={i}, {groups}, to_apply=add"
        elif i % every == 0:
            op = f"collective-permute(v{i - 1}), channel_id={i}, source_target_pairs={{{ring}}}"
        else:
            op = f"{('add', 'multiply', 'maximum')[i % 3]}(v{i - 1}, v{max(0, i - 7)})"
        lines.append(f"  {'ROOT ' if i == instructions - 1 else ''}v{i} = {shape} {op}, {metadata}")
    lines.append("}")
    return "\n".join(lines)


def median_ms(run: Callable[[], object], runs: int) -> float:
    """Median wall-clock time in ms, without the first run, which warms up."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instructions", type=int, default=100_000)
    parser.add_argument("--collectives", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()

    text = module_text(options.instructions, options.collectives)
    module = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    topology = _core.Topology([(i, i, 0, 0, i) for i in range(DEVICES)])
    transport = _core.cpu_transport({i: 0 for i in range(DEVICES)})

    def run_pass(data: bytes = module, lowering: str = "cpu") -> _core.PassResult:
        return _core.run_pass(data, topology, transport, lowering=lowering)

    result = run_pass()
    lowered = sum(record["lowered"] == "NVSHMEM" for record in result.records)
    rewritten = result.module
    assert rewritten is not None
    size = f"{len(result.records)} collectives, {len(module) / 1e6:.1f} MB proto"
    print(f"module: {options.instructions} instructions, {size}")
    print(f"rewritten: {lowered} collectives, {len(rewritten) / 1e6:.1f} MB")
    rows = [
        ("run_pass, CPU lowering, bytes to bytes", lambda: run_pass().module),
        ("run_pass on its own output", lambda: run_pass(rewritten)),
        ("inspect_module", lambda: _core.inspect_module(module)),
        ("XLA loads the same bytes", lambda: _hlo.HloModule.from_serialized_hlo_module_proto(module)),
    ]
    for name, run in rows:
        runs = options.runs if "XLA" not in name else min(5, options.runs)
        print(f"{name:42s} {median_ms(run, runs):9.1f} ms")


if __name__ == "__main__":
    main()
