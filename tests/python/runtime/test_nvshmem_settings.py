"""The settings with which NVSHMEM starts."""

from __future__ import annotations

from xla_shmem.runtime.nvshmem_settings import apply, chosen_by_user, heap_bytes, world_settings

MIB = 1 << 20


def test_there_is_no_network_and_no_nvls() -> None:
    settings = world_settings(100 * MIB, hosts=1)
    assert settings == {
        "NVSHMEM_SYMMETRIC_SIZE": str(180 * MIB),
        "NVSHMEM_MAX_TEAMS": "16",
        "NVSHMEM_DISABLE_NCCL": "1",
        "NVSHMEM_REMOTE_TRANSPORT": "none",
        "NVSHMEM_DISABLE_LOCAL_ONLY_PROXY": "1",
        "NVSHMEM_DISABLE_NVLS": "1",
        "NVSHMEM_DISABLE_MNNVL": "1",
    }


def test_multicast_memory_is_made_if_it_is_asked_for() -> None:
    settings = world_settings(0, hosts=1, multimem=True)
    # With NVLink SHARP, NVSHMEM 3.5 makes each of its own seven teams once, and three of them sixteen times.
    assert int(settings["NVSHMEM_MAX_TEAMS"]) >= 7 + 16 * 3
    assert int(settings["NVSHMEM_SYMMETRIC_SIZE"]) >= int(settings["NVSHMEM_MAX_TEAMS"]) * 0.6 * MIB
    assert "NVSHMEM_DISABLE_NVLS" not in settings


def test_a_users_value_stays() -> None:
    environ = {"NVSHMEM_MAX_TEAMS": "99"}
    apply(world_settings(0, hosts=2), environ)
    assert environ["NVSHMEM_MAX_TEAMS"] == "99"
    assert environ["NVSHMEM_DISABLE_NCCL"] == "1"
    assert "NVSHMEM_DISABLE_MNNVL" not in environ


def test_the_heap_grows_in_steps_unless_the_user_has_chosen_others() -> None:
    settings = world_settings(500 * MIB, hosts=1)
    assert heap_bytes(settings, {}) == 1024 * MIB
    assert heap_bytes(settings, {"NVSHMEM_CUMEM_GRANULARITY": "2M"}) == 580 * MIB


def test_only_variables_on_which_pes_must_agree_are_compared() -> None:
    environ = {"NVSHMEM_DEBUG": "INFO", "NVSHMEM_MAX_CTAS": "1", "NVSHMEM_DISABLE_NVLS": "0", "HOME": "/"}
    assert chosen_by_user(environ) == "NVSHMEM_DISABLE_NVLS=0 NVSHMEM_MAX_CTAS=1"
