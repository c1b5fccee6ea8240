"""Regular topologies."""

from __future__ import annotations

import pytest

from xla_shmem.hlo.regular_topology import DevicePlace, regular, regular_places


def test_default_is_one_device_per_process_and_hosts_of_eight() -> None:
    places = regular_places(16)
    assert places[9] == DevicePlace(device_id=9, process=9, host=1, nvlink_domain=1, pe=9)
    assert {place.host for place in places} == {0, 1}


def test_devices_fill_processes_hosts_and_domains_in_order() -> None:
    place = regular_places(32, devices_per_process=4, devices_per_host=8, nvlink_domain=16)[21]
    assert (place.process, place.host, place.nvlink_domain) == (5, 2, 1)


def test_domain_follows_the_host_unless_given() -> None:
    assert regular_places(8, devices_per_host=2)[5].nvlink_domain == 2


def test_host_default_grows_to_hold_a_process_and_never_splits_one() -> None:
    assert {place.host for place in regular_places(16, devices_per_process=16)} == {0}
    assert [place.host for place in regular_places(9, devices_per_process=3)] == [0] * 6 + [1] * 3


def test_regular_is_the_same_layout_for_the_pass() -> None:
    topology = regular(4, devices_per_process=2, devices_per_host=2)
    assert topology.devices == [(0, 0, 0, 0, 0), (1, 0, 0, 0, 1), (2, 1, 1, 1, 2), (3, 1, 1, 1, 3)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"num_devices": 0}, "number of devices is 0, must be at least 1"),
        ({"num_devices": 4, "devices_per_process": 0}, "devices per process is 0"),
        ({"num_devices": 6, "devices_per_process": 4}, "6 devices do not divide into processes of 4"),
        (
            {"num_devices": 8, "devices_per_process": 4, "devices_per_host": 6},
            "a host of 6 devices does not divide",
        ),
        ({"num_devices": 8, "nvlink_domain": 0}, "devices per NVLink domain is 0"),
    ],
)
def test_layout_that_does_not_fit_is_an_error(arguments: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        regular_places(**arguments)
