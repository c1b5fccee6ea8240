"""The cost model of the rules (xla_patch/assigner/cost_model.cc), held to `predict`'s constants and clusters."""

from __future__ import annotations

import pytest

from xla_shmem import _core
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants

_CLUSTERS = [("hopper", "h100-sxm"), ("blackwell", "gb200-nvl72")]


def _nvshmem_us(op: str, bytes: int, group: int, gpu: str) -> float:
    times = _core.expected_times(op, bytes, group, group, gpu)
    assert times is not None
    return times[0]


@pytest.mark.parametrize(("gpu", "cluster"), _CLUSTERS)
def test_a_large_put_moves_at_the_speed_of_copy_engines(gpu: str, cluster: str) -> None:
    size = 1 << 30
    us = _nvshmem_us("collective-permute", 2 * size, 2, gpu) - _nvshmem_us("collective-permute", size, 2, gpu)
    speed = read_cluster(cluster).nvlink_gb_per_s * read_constants().put_efficiency
    assert size / us / 1e3 == pytest.approx(speed)


@pytest.mark.parametrize(("gpu", "cluster"), _CLUSTERS)
def test_a_small_put_has_its_latency_and_one_copy(gpu: str, cluster: str) -> None:
    described, constants = read_cluster(cluster), read_constants()
    size = 4 << 20  # a slot
    copy = size / (described.memory_gb_per_s * constants.memory_efficiency * 1e3)
    put = size / (described.nvlink_gb_per_s * constants.put_efficiency * 1e3)
    latency = constants.put_us + described.nvlink_latency_us
    assert _nvshmem_us("collective-permute", size, 2, gpu) == pytest.approx(latency + put + copy, rel=1e-3)


def test_channels_of_a_send_follow_from_devices_and_bytes() -> None:
    channels = read_constants().nccl_point_to_point_channels
    assert [_core.nccl_send_channels(1 << 20, n, channels, channels) for n in (2, 4, 16, 64)] == [16, 8, 2, 1]
    assert _core.nccl_send_channels(64 << 20, 64, channels, channels) == 4
    assert _core.nccl_send_channels(1 << 30, 64, channels, 8) == 8
