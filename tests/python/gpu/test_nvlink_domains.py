"""NVLink domains of described machines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from xla_shmem.gpu.nvlink_domains import GpuPlace, any_over_pcie, place_gpus
from xla_shmem.gpu.nvml import Fabric, Link
from xla_shmem.gpu.process_facts import GpuFacts, ProcessFacts

NO_CLUSTER = Fabric("00000000-0000-0000-0000-000000000000", 0, "completed")
RACK = Fabric("11111111-2222-3333-4444-555555555555", 7, "completed")


def bus_id(gpu: int) -> str:
    return f"0000:{gpu:02X}:00.0"


def machine(gpus: int, links: dict[tuple[int, int], Link], fabric: Fabric | None = None) -> list[GpuFacts]:
    """Returns GPUs that all see each other, with `links` in both directions."""
    both_ways = links | {(b, a): link for (a, b), link in links.items()}
    return [
        GpuFacts(bus_id(i), peers={bus_id(j): both_ways.get((i, j)) for j in range(gpus) if j != i}, fabric=fabric)
        for i in range(gpus)
    ]


def every_pair(gpus: Sequence[int], link: Link) -> dict[tuple[int, int], Link]:
    return {(a, b): link for a in gpus for b in gpus if a < b}


def one_gpu_each(gpus: Sequence[GpuFacts], host: str = "a") -> list[ProcessFacts]:
    return [ProcessFacts(host, (gpu,)) for gpu in gpus]


def place(processes: Sequence[ProcessFacts], option: int | None = None) -> list[GpuPlace]:
    return place_gpus(processes, [len(facts.gpus) or 1 for facts in processes], option)


def domains(places: Sequence[GpuPlace]) -> list[int]:
    return [place.domain for place in places]


def reach(places: Sequence[GpuPlace]) -> list[int]:
    return [place.reach for place in places]


DGX_H100 = machine(8, every_pair(range(8), "nvlink"), NO_CLUSTER)


def test_dgx_h100_is_one_domain_though_its_fabric_is_completed() -> None:
    places = place(one_gpu_each(DGX_H100))
    assert domains(places) == reach(places) == [0] * 8
    assert {place.reason for place in places} == {"NVLink within its host"}


def test_two_dgx_h100_are_two_domains() -> None:
    places = place(one_gpu_each(DGX_H100, "a") + one_gpu_each(DGX_H100, "b"))
    assert domains(places) == reach(places) == [0] * 8 + [1] * 8
    assert [place.host for place in places] == [0] * 8 + [1] * 8


def test_gb200_nvl72_is_one_domain_across_18_hosts() -> None:
    tray = machine(4, every_pair(range(4), "nvlink"), RACK)
    places = place([facts for host in range(18) for facts in one_gpu_each(tray, f"host {host}")])
    assert domains(places) == reach(places) == [0] * 72
    assert places[71].host == 17
    assert places[0].reason == f"NVLink fabric {RACK.cluster}, clique 7"


def test_other_clique_or_other_cluster_is_another_domain() -> None:
    other_clique = Fabric(RACK.cluster, 8, "completed")
    other_cluster = Fabric("99999999-2222-3333-4444-555555555555", 7, "completed")
    fabrics = [RACK, other_clique, other_cluster, RACK]
    places = place([ProcessFacts(f"host {i}", (GpuFacts(bus_id(0), fabric=f),)) for i, f in enumerate(fabrics)])
    assert domains(places) == reach(places) == [0, 1, 2, 0]


@pytest.mark.parametrize("state", ["not supported", "not started", "in progress", "failed (NVML error 3)"])
def test_fabric_that_is_not_completed_does_not_reach_beyond_the_host(state: str) -> None:
    tray = machine(2, every_pair(range(2), "nvlink"), Fabric(RACK.cluster, 7, state))
    places = place(one_gpu_each(tray, "a") + one_gpu_each(tray, "b"))
    assert domains(places) == reach(places) == [0, 0, 1, 1]


def test_pcie_box_with_peer_access_is_one_domain_and_says_so() -> None:
    places = place(one_gpu_each(machine(4, every_pair(range(4), "pcie"))))
    assert domains(places) == reach(places) == [0] * 4
    assert places[0].reason == "peer access over PCIe, no NVLink on its host"


def test_pcie_box_with_two_roots_is_two_domains() -> None:
    links = every_pair([0, 1], "pcie") | every_pair([2, 3], "pcie")
    assert domains(place(one_gpu_each(machine(4, links)))) == [0, 0, 1, 1]


def test_gpus_without_peer_access_are_domains_of_their_own() -> None:
    places = place(one_gpu_each(machine(3, {})))
    assert domains(places) == reach(places) == [0, 1, 2]
    assert places[0].reason == "no NVLink or peer access to another GPU of the job on its host"


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 0, 2, 1]])
def test_nvlink_bridges_make_a_domain_each_in_any_order_though_pcie_reaches_further(order: list[int]) -> None:
    links = every_pair(range(4), "pcie") | {(0, 1): "nvlink", (2, 3): "nvlink"}
    gpus = machine(4, links)
    places = place(one_gpu_each([gpus[i] for i in order]))
    of_gpu = dict(zip(order, domains(places), strict=True))
    assert of_gpu[0] == of_gpu[1] != of_gpu[2] == of_gpu[3]
    assert reach(places) == [0] * 4


def test_hybrid_cube_mesh_is_two_domains_of_fully_linked_gpus() -> None:
    # DGX-1: two quads, every GPU with one more link to its counterpart in the other quad, no other peer access.
    links = (
        every_pair(range(4), "nvlink") | every_pair(range(4, 8), "nvlink") | {(i, i + 4): "nvlink" for i in range(4)}
    )
    assert domains(place(one_gpu_each(machine(8, links)))) == [0] * 4 + [1] * 4


def test_mig_instances_are_domains_of_their_own_even_on_one_gpu() -> None:
    gpus = [GpuFacts(bus_id(0), mig=True, switch_links=18), GpuFacts(bus_id(0), mig=True, switch_links=18)]
    places = place(one_gpu_each(gpus))
    assert domains(places) == reach(places) == [0, 1]
    assert places[0].reason == "split by MIG: no NVLink and no peer access"


def test_mig_gpu_beside_whole_ones_does_not_join_them() -> None:
    gpus = [*DGX_H100[:3], GpuFacts(bus_id(3), mig=True, fabric=RACK)]
    assert domains(place(one_gpu_each(gpus))) == [0, 0, 0, 1]


def test_processes_that_share_one_gpu_are_one_domain() -> None:
    gpu = GpuFacts(bus_id(0))
    places = place(one_gpu_each([gpu, gpu]))
    assert domains(places) == reach(places) == [0, 0]
    assert places[0].reason == "one GPU shared by several processes"


def test_gpus_hidden_from_each_other_are_joined_by_their_links() -> None:
    on_switch = [GpuFacts(bus_id(i), switch_links=18) for i in range(2)]
    bridged = [GpuFacts(bus_id(4), peer_links=(bus_id(5),)), GpuFacts(bus_id(5))]
    assert domains(place(one_gpu_each([*on_switch, *bridged]))) == [0, 0, 1, 1]


def test_nvmls_answer_for_a_pair_counts_more_than_the_switch() -> None:
    shown = [GpuFacts(bus_id(i), switch_links=18, peers={bus_id(1 - i): None}) for i in range(2)]
    assert domains(place(one_gpu_each(shown))) == [0, 1]


def test_host_with_an_unreadable_process_is_one_domain_and_the_reason_names_it() -> None:
    mute = ProcessFacts("a", (), "no NVIDIA driver")
    places = place([*one_gpu_each(machine(2, {}), "a"), mute, *one_gpu_each(machine(2, {}), "b")])
    assert domains(places) == reach(places) == [0, 0, 0, 1, 2]
    assert places[0].reason == "its host counts as one domain, as in XLA; process 2: no NVIDIA driver"


def test_fabric_counts_beside_an_unreadable_process() -> None:
    mute = ProcessFacts("a", (), "no NVIDIA driver")
    on_rack = [GpuFacts(bus_id(0), fabric=RACK)]
    assert domains(place([*one_gpu_each(on_rack, "a"), mute, *one_gpu_each(on_rack, "b")])) == [0, 1, 0]


def test_mixed_job_of_a_rack_a_dgx_and_a_pcie_box() -> None:
    tray = machine(2, every_pair(range(2), "nvlink"), RACK)
    job = [
        *one_gpu_each(tray, "tray 0"),
        *one_gpu_each(DGX_H100[:2], "dgx"),
        *one_gpu_each(machine(2, {}), "pcie"),
        *one_gpu_each(tray, "tray 1"),
    ]
    assert domains(place(job)) == [0, 0, 1, 1, 2, 3, 0, 0]


def test_several_gpus_of_one_process_are_placed_one_by_one() -> None:
    links = {(0, 1): "nvlink", (2, 3): "nvlink"}
    (process,) = [ProcessFacts("a", tuple(machine(4, links)))]  # type: ignore[arg-type]
    places = place([process])
    assert [(place.process, place.local, place.domain) for place in places] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 1),
        (0, 3, 1),
    ]


def test_option_sets_the_devices_of_a_domain_and_does_not_change_reach() -> None:
    job = one_gpu_each(DGX_H100, "a") + one_gpu_each(DGX_H100, "b")
    places = place(job, option=4)
    assert domains(places) == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert reach(places) == [0] * 8 + [1] * 8
    assert places[0].reason == "XLA_SHMEM_NVLINK_DOMAIN=4"


def test_option_may_span_hosts_and_may_be_host() -> None:
    job = one_gpu_each(machine(2, {}), "a") + one_gpu_each(machine(2, {}), "b")
    assert domains(place(job, option=4)) == [0] * 4
    places = place(job, option=0)
    assert domains(places) == [0, 0, 1, 1]
    assert places[0].reason == "XLA_SHMEM_NVLINK_DOMAIN=host"
    assert reach(places) == [0, 1, 2, 3]


def test_another_number_of_gpus_than_devices_is_an_error() -> None:
    with pytest.raises(ValueError, match="process 1 has 2 devices and announced 1 GPUs"):
        place_gpus(one_gpu_each(machine(2, {})), [1, 2])


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        (DGX_H100, False),
        (machine(2, {(0, 1): "pcie"}), True),
        (machine(3, every_pair([0, 1, 2], "nvlink") | {(1, 2): "pcie"}), True),
        (machine(1, {}) * 2, False),  # one GPU that processes share
    ],
)
def test_a_pair_that_pcie_alone_connects_is_found(gpus: Sequence[GpuFacts], found: bool) -> None:
    assert any_over_pcie(gpus) is found
