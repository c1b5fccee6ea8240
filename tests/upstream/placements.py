"""Places of the devices of the compiled jobs. Used by the workers (old JAX, no xla_shmem) and by the comparison."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """A job of one process per host. ``slices`` are NVLink domains, as in XLA's "slices x hosts x devices".

    ``deviceless`` placements are compiled for a topology description, without a driver. The others are compiled by a
    client of XLA with a mock topology, as process 0 of the job.
    """

    slices: int
    hosts: int
    devices: int
    deviceless: bool = False

    @property
    def shape(self) -> str:
        return f"{self.slices}x{self.hosts}x{self.devices}"

    @property
    def name(self) -> str:
        return self.shape + ("-deviceless" if self.deviceless else "")

    @property
    def num_devices(self) -> int:
        return self.slices * self.hosts * self.devices

    @property
    def nvlink_domain(self) -> int:
        return self.hosts * self.devices


PLACEMENTS = {
    placement.name: placement
    for placement in (
        Placement(1, 4, 1),
        Placement(8, 1, 1),
        Placement(1, 8, 1, deviceless=True),
        Placement(1, 16, 1, deviceless=True),
        Placement(1, 1, 8),
        Placement(2, 1, 4),
        Placement(4, 1, 2),
        Placement(1, 2, 4),
        Placement(2, 2, 2),
    )
}

#: The compared releases. Without a driver, 0.8.3 does not know the number of devices of a process and fails.
RELEASES = ("0.8.3", "0.9.2", "0.10.0")


def placements_for(release: str) -> list[Placement]:
    return [p for p in PLACEMENTS.values() if not (p.deviceless and release == "0.8.3")]


if __name__ == "__main__":
    # For scripts/test_upstream.sh: release, placement, devices per process.
    for release in RELEASES:
        for placement in placements_for(release):
            print(release, placement.name, placement.devices)
