"""The user's settings for offline decisions: the rules, and the layout of the devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from xla_shmem.hlo.files import HloFileError, HloInput
from xla_shmem.hlo.module_devices import devices_needed
from xla_shmem.hlo.regular_topology import DevicePlace, core_topology, regular_places
from xla_shmem.options import Options, resolve

if TYPE_CHECKING:
    from xla_shmem import _core

R = TypeVar("R")

#: In XLA:CPU the first device of process p has this number times p (``xla/pjrt/plugin/xla_cpu``), so that a job of one
#: device per process has the devices 0, 2048, 4096 …
CPU_PROCESS_STRIDE = 2048


class Decider(Protocol):
    """Options and devices with which the rules decide."""

    def decide(self, decide: Callable[..., R], module: HloInput, lowering: str) -> R:
        """Returns the result of ``decide`` (``_core.run_pass`` or ``_core.explain_module``) for a module.

        Args:
          lowering: ``"cpu"``, ``"gpu"``, or ``"none"`` for attributes only.

        Raises:
          HloFileError: the devices do not fit the module, or it is malformed.
          OptionError: an option has an invalid value.
        """


@dataclass(frozen=True)
class DecisionSettings:
    """What a module does not hold: the options, and the layout of the job's devices, whose ids are 0 to N-1 in order.

    Attributes:
      profile, threshold, ops, tuning: as ``XLA_SHMEM_<NAME>``; None: the value of the environment or of
        ``xla_shmem.configure``, or else the default. The table of ``tuning`` may be of any machine.
      devices_per_process: devices of each process.
      devices_per_host: devices of each host; None: as many whole processes as have 8 devices, at least one.
      nvlink_domain: devices of each NVLink domain, which beats ``XLA_SHMEM_NVLINK_DOMAIN``; None: one host.
      num_devices: devices of the whole job; None: those that the module names.
      gpu: ``"hopper"`` or ``"blackwell"``, for the cost model; None: no cost model.
    """

    profile: str | None = None
    threshold: int | str | None = None
    ops: str | None = None
    tuning: str | os.PathLike[str] | None = None
    devices_per_process: int = 1
    devices_per_host: int | None = None
    nvlink_domain: int | str | None = None
    num_devices: int | None = None
    gpu: str | None = None

    def options(self) -> Options:
        """Returns the options in force. Raises: OptionError."""
        given = {name: getattr(self, name) for name in ("profile", "threshold", "ops", "tuning", "nvlink_domain")}
        overrides = {name: value for name, value in given.items() if value is not None}
        return resolve(overrides=overrides, any_machine=True)

    def places(self, module: HloInput) -> list[DevicePlace]:
        """Returns the places of the job's devices: 0 … N-1, or for a job of CPU processes the devices of the module.

        Raises:
          HloFileError: the numbers do not fit the module or each other, or the number of devices is unknown.
        """
        domain = self.options().nvlink_domain or None
        ids = module.header["devices"] if self.num_devices is None else []
        if not ids or ids[-1] < CPU_PROCESS_STRIDE or module.platform != "cpu":
            ids = list(range(self._num_devices(module)))
        try:
            places = regular_places(len(ids), self.devices_per_process, self.devices_per_host, domain)
        except ValueError as error:
            raise HloFileError(f"{module.source}: {error}") from None
        return [replace(place, device_id=device) for place, device in zip(places, ids, strict=True)]

    def decide(self, decide: Callable[..., R], module: HloInput, lowering: str) -> R:
        """Returns the result of ``decide`` (``_core.run_pass`` or ``_core.explain_module``) for a module.

        Raises:
          HloFileError: as for :meth:`places`, or the module is malformed.
          OptionError: an option has an invalid value.
        """
        options = self.options()
        places = self.places(module)
        try:
            return decide(
                module.proto,
                core_topology(places),
                _transport(lowering, places),
                **options.rules(module.platform if lowering == "none" else lowering),
                lowering=lowering,
                gpu=self.gpu or "",
            )
        except ValueError as error:
            raise HloFileError(f"{module.source}: {error}") from None

    def _num_devices(self, module: HloInput) -> int:
        needed, given = devices_needed(module), self.num_devices
        if given is None:
            if needed is None:
                raise HloFileError(f"{module.source}: does not contain its number of devices; give --num-devices.")
            return needed
        if needed is not None and given < needed:
            raise HloFileError(
                f"{module.source}: uses device {needed - 1}, so --num-devices {given} must be at least {needed}."
            )
        return given


def _transport(platform: str, places: list[DevicePlace]) -> _core.Transport:
    """Returns the transport of a platform: on CPU devices reach their host, on GPU their NVLink domain."""
    from xla_shmem import _core

    if platform == "gpu":
        return _core.gpu_transport({place.device_id: place.nvlink_domain for place in places})
    return _core.cpu_transport({place.device_id: place.host for place in places})
