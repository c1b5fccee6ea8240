"""One model of transfers: `predict` and the rules of the pass (`inspect`, `tune`) have the same times."""

from __future__ import annotations

import dataclasses

import pytest

from xla_shmem import _core
from xla_shmem.options.values import OPS
from xla_shmem.predict.cluster import read_cluster
from xla_shmem.predict.constants import read_constants
from xla_shmem.predict.program import Collective
from xla_shmem.predict.transfers import transfer

_GPUS, _MIB = 8, 1 << 20

#: The speed of a channel that the rules go by: of one permute at a time.
_MEASURED_GB_PER_S = 21.8


@pytest.mark.parametrize(("gpu", "cluster"), [("hopper", "h100-sxm"), ("blackwell", "gb200-nvl72")])
@pytest.mark.parametrize("op", [op for op in OPS if op != "ragged-all-to-all"])
@pytest.mark.parametrize("size", [1024, _MIB, 64 * _MIB])
def test_predict_has_the_times_of_the_rules(op: str, size: int, gpu: str, cluster: str) -> None:
    described = read_cluster(cluster)
    constants = dataclasses.replace(read_constants(), channel_gb_per_s=_MEASURED_GB_PER_S)
    collective = Collective(op, size, _GPUS, "NVSHMEM", domain_size=_GPUS)
    expected = _core.expected_times(op, size, _GPUS, _GPUS, gpu)
    assert expected is not None
    for backend, us in zip(("NVSHMEM", "DEFAULT"), expected, strict=True):
        found = transfer(collective, backend, described, constants, _GPUS)
        assert found.seconds * 1e6 == pytest.approx(us, rel=1e-3), backend


def test_a_ragged_all_to_all_counts_as_full_in_predict_and_has_no_model_in_the_rules() -> None:
    cluster, constants = read_cluster("h100-sxm"), read_constants()
    ragged, full = (
        transfer(Collective(op, _MIB, _GPUS, "DEFAULT", _GPUS), "DEFAULT", cluster, constants, _GPUS)
        for op in ("ragged-all-to-all", "all-to-all")
    )
    assert ragged == full
    assert _core.expected_times("ragged-all-to-all", _MIB, _GPUS, _GPUS, "hopper") is None


def test_a_whole_step_has_another_speed_of_a_channel_than_one_permute() -> None:
    """XLA's table of single permutes and the steps of Table 2 disagree; constants.toml says how the fit would miss."""
    collective = Collective("collective-permute", _MIB, 64, "DEFAULT", domain_size=64)
    found = transfer(collective, "DEFAULT", read_cluster("gb200-nvl72"), read_constants(), 64)
    alone = _core.expected_times("collective-permute", _MIB, 64, 64, "blackwell")
    assert alone is not None
    latency_us = 10.5
    ratio = (alone[1] - latency_us) / (found.seconds * 1e6 - latency_us)
    assert ratio == pytest.approx(read_constants().channel_gb_per_s / _MEASURED_GB_PER_S, rel=1e-3)


def test_large_sends_get_more_channels_one_at_a_time_and_none_more_in_a_step() -> None:
    assert [_core.nccl_send_channels(_MIB, n, 32) for n in (2, 4, 16, 64)] == [16, 8, 2, 1]
    assert _core.nccl_send_channels(64 * _MIB, 64, 32) == 4
    assert _core.nccl_send_channels(1 << 30, 64, 8) == 8
    cluster, constants = read_cluster("gb200-nvl72"), read_constants()
    small, large = (
        transfer(Collective("collective-permute", size, 64, "DEFAULT", 64), "DEFAULT", cluster, constants, 64)
        for size in (_MIB, 64 * _MIB)
    )
    assert small.sms == large.sms == 1
