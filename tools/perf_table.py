"""Writes XLA's table of collective times (`--xla_gpu_experimental_collective_perf_table_path`), with NVSHMEM's.

    python tools/perf_table.py table.pbtxt --cluster h100-sxm [--num-devices 16] [--tuning FILE]

XLA's scheduler runs before the pass, and overlaps a collective by what it costs on NCCL. This table has the time on the
backend that the pass will choose: as `xla-shmem tune` measured it, or else by the cost model. XLA takes the nearest
size of an op, and then the nearest group, and divides the bytes by the throughput there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import click

from gpu_compile.described_gpus import PRESET_TARGETS, target_description, target_names
from xla_shmem import _core
from xla_shmem.cli.one_sentence_errors import one_sentence_errors
from xla_shmem.options import Options, resolve
from xla_shmem.predict.cluster import Cluster, read_cluster

#: GPUs of a host if XLA is not told otherwise: `gpus_per_node` in xla/service/gpu/model/sol_gpu_cost_model.cc.
XLA_GPUS_PER_NODE = 8

#: Sizes of the table in bytes. Between two of them XLA's time is at most 9 % off.
_SMALLEST, _LARGEST, _STEPS_PER_DOUBLING = 4, 1 << 30, 4

#: Ops that the table can have (CollectiveInterpolator in XLA) and that have groups.
_OPS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")

#: XLA distinguishes permutes by their pairs, not by their number: one direction, swaps, and rings or chains.
_PERMUTES = (((0, 1),), ((0, 1), (1, 0)), ((0, 1), (1, 2), (2, 3), (3, 0)))


@dataclasses.dataclass(frozen=True)
class Target:
    """GPUs for which a table is written.

    Attributes:
      compute_capability: major and minor.
      name: of the GPU, as the driver has it.
      domain: GPUs of an NVLink domain.
      devices: GPUs of the job, which NCCL's times of permutes depend on.
    """

    compute_capability: tuple[int, int]
    name: str
    domain: int
    devices: int

    @property
    def key(self) -> str:
        """XLA's key of the device: `GetDeviceSpecificProfileName` in xla/service/gpu/model/hlo_op_profiles.cc."""
        key = f"sm_{''.join(map(str, self.compute_capability))}"
        return f"{key}_{self.name.split()[-1]}" if key == "sm_100" else key

    @property
    def generation(self) -> str:
        """Name of the generation in the cost model; "" if it has none."""
        return _core.gpu_generation(self.compute_capability[0])

    @property
    def flags(self) -> list[str]:
        """XLA_FLAGS without which XLA takes groups of more than eight GPUs for several hosts."""
        if self.domain <= XLA_GPUS_PER_NODE:
            return []
        size = self.domain
        return [f"--xla_gpu_analytical_latency_estimator_options=gpus_per_node={size},partition_size={size}"]


def target_of(cluster: Cluster, description: str, devices: int | None = None) -> Target:
    """The target for a job on a cluster.

    Args:
      cluster: the cluster.
      description: name of its GPUs in `gpu_compile/targets/`.
      devices: GPUs of the job; None for those of one NVLink domain.
    """
    text = target_description(description)
    found = re.search(r'device_description_str: "(.*)"[\s\S]*?major: (\d+) minor: (\d+)', text)
    assert found is not None
    domain = cluster.gpus_per_nvlink_domain
    return Target((int(found[2]), int(found[3])), found[1], domain, devices or domain)


def sizes(groups: list[int]) -> list[int]:
    """Bytes of the table's rows, in whole elements of every member.

    Every group has the same sizes, since XLA prefers a nearer size to a nearer group.
    """
    unit = _unit(groups)
    count = (_LARGEST // _SMALLEST).bit_length() - 1
    steps = (_SMALLEST * 2 ** (n / _STEPS_PER_DOUBLING) for n in range(count * _STEPS_PER_DOUBLING + 1))
    return sorted({round(step / part) * part for step in steps for part in (unit if step >= unit else 4,)})


def _unit(groups: list[int]) -> int:
    return 4 * max(groups)


def perf_table(target: Target, options: Options) -> str:
    """The table as text, an `xla.gpu.DeviceHloInstructionProfiles`.

    Args:
      target: the GPUs.
      options: options of the pass.
    """
    groups = [2**n for n in range(1, min(target.domain, target.devices).bit_length())]
    entries = "".join(_entries(target, options, groups))
    return f'entries {{\n  key: "{target.key}"\n  value {{\n{entries}  }}\n}}\n'


def _entries(target: Target, options: Options, groups: list[int]) -> Iterator[str]:
    rules = options.rules("gpu")
    del rules["hierarchical"]  # the table's groups lie in one NVLink domain
    for size in sizes(groups):
        divided = size % _unit(groups) == 0
        for op in _OPS if divided else ("all-reduce",):
            for group in groups:
                result = size // group if op == "reduce-scatter" else size
                us = _core.planned_time(op, result, group, target.devices, **rules, gpu=target.generation)
                if us is not None:
                    yield _entry(op, result, _groups(group), size / us)
        us = _core.planned_time("collective-permute", size, 2, target.devices, **rules, gpu=target.generation)
        for pairs in _PERMUTES if us is not None else ():
            yield _entry("collective-permute", size, _pairs(pairs), size / us)  # type: ignore[operator]


def _entry(op: str, result_bytes: int, participants: str, bytes_per_us: float) -> str:
    shape = f"shape {{ element_type: F32 dimensions: {result_bytes // 4} layout {{ minor_to_major: 0 }} }}"
    # XLA builds this instruction, and counts the bytes that it transfers.
    instruction = f'name: "_" opcode: "{op}" {shape} channel_id: 1 {participants}'
    throughput = f"network_throughput_bytes_per_sec: {round(bytes_per_us * 1e6)}"
    return f"    entries {{ instruction {{ {instruction} }} {throughput} }}\n"


def _groups(group: int) -> str:
    shape = f"num_replica_groups: 1 num_devices_per_group: {group} iota_reshape_dims: {group} iota_transpose_perm: 0"
    return f"use_global_device_ids: true iota_collective_device_list {{ {shape} }}"


def _pairs(pairs: tuple[tuple[int, int], ...]) -> str:
    return " ".join(f"source_target_pairs {{ source: {source} target: {target} }}" for source, target in pairs)


@click.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--cluster", default="gb200-nvl72", show_default=True, metavar="NAME|FILE", help="Where the job runs.")
@click.option(
    "--target", type=click.Choice(target_names()), help="Kind of its GPUs.  [default: the preset's, or gb200]"
)
@click.option(
    "--num-devices",
    type=click.IntRange(min=2),
    metavar="N",
    help="Devices of the whole job.  [default: one NVLink domain]",
)
@click.option(
    "--tuning",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Table that `xla-shmem tune` measured on GPUs. Without it, the times are those of the model.",
)
@one_sentence_errors
def main(path: Path, cluster: str, target: str | None, num_devices: int | None, tuning: Path | None) -> None:
    """Write the times of collectives on the backends that the options choose, for XLA's scheduler.

    Nothing is measured. Prints the flags with which XLA reads FILE.
    """
    described = target_of(read_cluster(cluster), target or PRESET_TARGETS.get(cluster, "gb200"), num_devices)
    given = {} if tuning is None else {"profile": "tuned", "tuning": tuning}
    text = perf_table(described, resolve(overrides=given or None, any_machine=True))
    path.write_text(text)
    flags = [f"--xla_gpu_experimental_collective_perf_table_path={path.resolve()}", *described.flags]
    click.echo(f"# {text.count('throughput')} times for {described.key}; to use them: XLA_FLAGS='{' '.join(flags)}'")


if __name__ == "__main__":
    main()
