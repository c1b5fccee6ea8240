"""Regular topologies: devices laid out evenly over processes, hosts and NVLink domains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xla_shmem import _core

#: Default for the devices of one host: the usual 8-GPU server.
DEFAULT_DEVICES_PER_HOST = 8


@dataclass(frozen=True)
class DevicePlace:
    """Place of one device; ``pe`` is its rank in the SHMEM world, which has one PE per device."""

    device_id: int
    process: int
    host: int
    nvlink_domain: int
    pe: int


def regular_places(
    num_devices: int,
    devices_per_process: int = 1,
    devices_per_host: int | None = None,
    nvlink_domain: int | None = None,
) -> list[DevicePlace]:
    """Lays out device ids 0 … num_devices-1 in order.

    Args:
      num_devices: devices of the whole job.
      devices_per_process: consecutive devices of one process.
      devices_per_host: consecutive devices of one host. Default: as many whole processes as fit in 8 devices, at
        least one.
      nvlink_domain: consecutive devices of one NVLink domain, which may span hosts (as in a GB200 rack). Default: one
        domain per host.

    Raises:
      ValueError: a count is below 1, or a process would be split over two hosts.
    """
    if devices_per_host is None:
        whole_processes = max(DEFAULT_DEVICES_PER_HOST // max(devices_per_process, 1), 1)
        devices_per_host = whole_processes * max(devices_per_process, 1)
    if nvlink_domain is None:
        nvlink_domain = devices_per_host
    counts = {
        "number of devices": num_devices,
        "devices per process": devices_per_process,
        "devices per host": devices_per_host,
        "devices per NVLink domain": nvlink_domain,
    }
    for what, count in counts.items():
        if count < 1:
            raise ValueError(f"{what} is {count}, must be at least 1")
    if num_devices % devices_per_process:
        raise ValueError(f"{num_devices} devices do not divide into processes of {devices_per_process} devices")
    if devices_per_host % devices_per_process:
        raise ValueError(
            f"a host of {devices_per_host} devices does not divide into processes of {devices_per_process} devices"
        )
    return [
        DevicePlace(
            device_id=device,
            process=device // devices_per_process,
            host=device // devices_per_host,
            nvlink_domain=device // nvlink_domain,
            pe=device,
        )
        for device in range(num_devices)
    ]


def core_topology(places: Iterable[DevicePlace]) -> _core.Topology:
    """Returns the places as a topology for the compiler pass.

    Raises:
      ValueError: a device or PE occurs twice, or a number is negative.
    """
    from xla_shmem import _core

    return _core.Topology([astuple(place) for place in places])


def regular(
    num_devices: int,
    devices_per_process: int = 1,
    devices_per_host: int | None = None,
    nvlink_domain: int | None = None,
) -> _core.Topology:
    """Returns the topology of :func:`regular_places`. Arguments and errors as there."""
    return core_topology(regular_places(num_devices, devices_per_process, devices_per_host, nvlink_domain))
