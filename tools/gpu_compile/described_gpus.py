"""Described GPUs: XLA compiles for them, and the pass sees their job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jax.experimental import topologies

from xla_shmem import _core, options, plugin
from xla_shmem.hlo import regular_topology

_TARGETS = Path(__file__).parent / "targets"

#: Description of the GPUs of each preset of `xla-shmem predict --cluster`.
PRESET_TARGETS = {"gb200-nvl72": "gb200", "h100-sxm": "h100", "h200-sxm": "h100"}


def target_names() -> list[str]:
    """Names of all descriptions."""
    return sorted(path.stem for path in _TARGETS.glob("*.txtpb"))


def target_description(target: str) -> str:
    """The description in `targets/` of that name, an `xla.GpuTargetConfigProto` as text.

    Raises:
      FileNotFoundError: there is none.
    """
    return (_TARGETS / f"{target}.txtpb").read_text()


def described_gpus(
    count: int, target: str, observe: Callable[[bytes, list[Any]], None], devices_per_process: int = 1
) -> list[Any]:
    """Devices of a described job; the pass is set up for them if the flag is set.

    They are one NVLink domain, unless `XLA_SHMEM_NVLINK_DOMAIN` is a number. A domain is a slice for XLA, if all are
    equal.

    Args:
      count: number of GPUs.
      target: name of a description in `targets/`: `a100`, `h100` or `gb200`.
      observe: called with every module that has collectives, and their records.
      devices_per_process: GPUs of each process.

    Raises:
      FileNotFoundError: the description does not exist.
      RuntimeError: this process has no CUDA plugin (`environment.py`).
    """
    chosen = options.resolve(any_machine=True)
    domain = chosen.nvlink_domain or count
    slices = count // domain if count % domain == 0 else 1
    described = topologies.get_topology_desc(
        platform="cuda",
        topology_name="",
        # slices x processes x devices of a process
        topology=f"{slices}x{count // slices // devices_per_process}x{devices_per_process}",
        target_config=target_description(target),
    )
    if plugin.active():  # JAX initialises the plugin when it is first asked for devices
        places = regular_topology.regular_places(
            count, devices_per_process, devices_per_host=count, nvlink_domain=domain
        )
        _core.gpu_pass().set_hooks(lambda: "the topology is set below", observe)
        transport = _core.gpu_transport({place.device_id: place.nvlink_domain for place in places})
        _core.gpu_pass().set_options(regular_topology.core_topology(places), transport, **chosen.rules("gpu"))
    return list(described.devices)
